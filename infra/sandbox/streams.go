//go:build linux

package sandbox

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// drainTime is the time in which output may still arrive after the command's end. All
// its processes have ended by then; only a descriptor passed to another command
// of the session can keep a pipe open.
const drainTime = 10 * time.Second

// streams carry a command's input and output. The command always gets pipes,
// never a file of the service: it could do more with one than write.
type streams struct {
	stdin   *os.File // nil when there is no input
	outputs []*os.File
	writers []io.Writer
	copying sync.WaitGroup
}

// open creates the pipes and returns the command's ends.
func (s *streams) open(null int, spec Spec) (theirs [3]int, err error) {
	theirs = [3]int{null, null, null}

	defer func() {
		if err != nil {
			s.closeTheirs(null, theirs)
			s.abandon()
		}
	}()

	if spec.Stdin != nil || spec.StdinPipe {
		var pair [2]int
		if err = pipe(&pair, 1); err != nil {
			return theirs, err
		}

		theirs[0], s.stdin = pair[0], os.NewFile(uintptr(pair[1]), "stdin")
	}

	output := func(i int, w io.Writer) error {
		var pair [2]int
		if err := pipe(&pair, 0); err != nil {
			return err
		}

		theirs[i] = pair[1]
		s.outputs = append(s.outputs, os.NewFile(uintptr(pair[0]), "output"))
		s.writers = append(s.writers, w)

		return nil
	}
	if spec.Stdout != nil {
		if err = output(1, spec.Stdout); err != nil {
			return theirs, err
		}
	}

	switch {
	case spec.Stderr == nil:
	case same(spec.Stdout, spec.Stderr):
		theirs[2] = theirs[1]
	default:
		err = output(2, spec.Stderr)
	}

	return theirs, err
}

// pipe creates a pipe whose end ours uses Go's poller.
func pipe(pair *[2]int, ours int) error {
	if err := unix.Pipe2(pair[:], unix.O_CLOEXEC); err != nil {
		return fmt.Errorf("sandbox: %w", err)
	}

	if err := unix.SetNonblock(pair[ours], true); err != nil {
		return fmt.Errorf("sandbox: %w", err)
	}

	return nil
}

// same compares writers, of which some types cannot be compared.
func same(a, b io.Writer) bool {
	defer func() { _ = recover() }()
	return a == b
}

func (s *streams) closeTheirs(null int, theirs [3]int) {
	for i, fd := range theirs {
		if fd != null && !(i == 2 && fd == theirs[1]) {
			_ = unix.Close(fd)
		}
	}
}

// abandon closes our ends of a command that never started.
func (s *streams) abandon() {
	if s.stdin != nil {
		_ = s.stdin.Close()
	}

	for _, f := range s.outputs {
		_ = f.Close()
	}
}

// copy starts carrying data.
func (s *streams) copy(spec Spec) {
	for i, f := range s.outputs {
		s.copying.Go(func() {
			_, _ = io.Copy(s.writers[i], onlyReader{f})
			// When the writer failed, the command gets SIGPIPE rather than block.
			_ = f.Close()
		})
	}

	if spec.Stdin != nil {
		// Not waited for: a reader may block long after the command's end.
		go func() {
			_, _ = io.Copy(s.stdin, spec.Stdin)
			_ = s.stdin.Close()
		}()
	}
}

// finish waits for the rest of the output.
func (s *streams) finish() {
	if s.stdin != nil {
		_ = s.stdin.Close()
	}

	late := time.AfterFunc(drainTime, func() {
		for _, f := range s.outputs {
			_ = f.Close()
		}
	})

	s.copying.Wait()
	late.Stop()
}

// onlyReader hides os.File's WriteTo, which would try splice first.
type onlyReader struct{ io.Reader }
