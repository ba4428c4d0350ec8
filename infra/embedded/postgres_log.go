package embedded

import (
	"errors"
	"io"
	"log/slog"
	"os"
	"syscall"
	"time"
)

// Limits of the server's log: a longer log is truncated at its start.
const (
	maxLogSize    = 8 << 20
	keptLogSize   = 1 << 20
	logCheckEvery = 10 * time.Second
)

// serverLog is the server's log file with the offset at which this run starts.
type serverLog struct {
	file   *os.File
	path   string
	offset int64
}

func openLog(path string) (*serverLog, error) {
	if err := shortenLog(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}

	file, err := openLogFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND)
	if err != nil {
		return nil, err
	}

	size, err := file.Seek(0, io.SeekEnd)
	if err != nil {
		file.Close()
		return nil, err
	}

	return &serverLog{file: file, path: path, offset: size}, nil
}

// openLogFile does not follow links: the directory belongs to the server's user, who must not be
// able to redirect this process, possibly root, to another file.
func openLogFile(path string, flags int) (*os.File, error) {
	return os.OpenFile(path, flags|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0o600)
}

// written returns the log since the file was opened.
func (l *serverLog) written() string {
	content, err := os.ReadFile(l.path)
	if err != nil || int64(len(content)) < l.offset {
		return ""
	}

	return string(content[l.offset:])
}

// boundLog limits the size of the log until the server has ended.
func boundLog(path string, every time.Duration, ended <-chan struct{}, logger *slog.Logger) {
	tick := time.NewTicker(every)
	defer tick.Stop()

	for {
		select {
		case <-ended:
			return
		case <-tick.C:
			if err := shortenLog(path); err != nil {
				logger.Warn("failed to shorten the log of PostgreSQL", "path", path, "error", err)
			}
		}
	}
}

// shortenLog removes the start of an oversized log. The server appends to the same file;
// concurrent writes can be lost.
func shortenLog(path string) error {
	file, err := openLogFile(path, os.O_RDWR|os.O_APPEND)
	if err != nil {
		return err
	}
	defer file.Close()

	info, err := file.Stat()
	if err != nil || info.Size() <= maxLogSize {
		return err
	}

	end := make([]byte, keptLogSize)
	if _, err := file.ReadAt(end, info.Size()-keptLogSize); err != nil {
		return err
	}

	if err := file.Truncate(0); err != nil {
		return err
	}

	_, err = file.Write(end)

	return err
}
