//go:build linux

package forkserver

import "syscall"

// killTime bounds the end of the server, in rounds of killRound.
const (
	killRounds = 5000
	killRound  = 2e6 // nanoseconds
)

// killChildren ends everything below the server when the service has ended. With
// process namespaces the death of each process 1 does that; without, the tree
// is walked. Everything is stopped before anything is killed: what is stopped
// does not fork and still counts against the limit of processes, so that a fork
// bomb cannot outrun this. The server is the reaper of all orphans below it.
func killChildren() {
	for range killRounds {
		stopped := map[int]bool{}
		for {
			before := len(stopped)

			queue := children(nil, "/proc/thread-self/children")
			for len(queue) > 0 {
				pid := queue[len(queue)-1]
				queue = queue[:len(queue)-1]

				if !stopped[pid] {
					stopped[pid] = true
					_ = syscall.Kill(pid, syscall.SIGSTOP)
				}

				id := itoa(pid)
				queue = children(queue, "/proc/"+id+"/task/"+id+"/children")
			}

			if len(stopped) == before {
				break
			}
		}

		if len(stopped) == 0 {
			return
		}

		for pid := range stopped {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}

		pause := syscall.Timespec{Nsec: killRound}
		_ = syscall.Nanosleep(&pause, nil)
	}
}

// children appends the process ids in one of the kernel's lists of children.
func children(to []int, path string) []int {
	fd, err := syscall.Open(path, syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return to
	}
	defer func() { _ = syscall.Close(fd) }()

	var buf [4096]byte

	pid := 0

	for {
		n, err := syscall.Read(fd, buf[:])
		if n <= 0 || err != nil {
			return to
		}

		for _, c := range buf[:n] {
			if c >= '0' && c <= '9' {
				pid = pid*10 + int(c-'0')
				continue
			}

			if pid > 1 {
				to = append(to, pid)
			}

			pid = 0
		}
	}
}

// itoa is strconv's, which this package does not import.
func itoa(n int) string {
	var b [20]byte

	i := len(b)
	for {
		i--

		b[i] = byte('0' + n%10)
		if n /= 10; n == 0 {
			return string(b[i:])
		}
	}
}
