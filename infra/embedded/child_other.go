//go:build !linux

package embedded

import (
	"errors"
	"os"
	"syscall"
)

// endWithParent does nothing: other systems have no such signal. A server that outlives a killed
// parent makes the next start wait, then fail with the server's message.
func endWithParent(*syscall.SysProcAttr) {}

func openPathHandle(string) (*os.File, error) { return nil, errors.ErrUnsupported }
