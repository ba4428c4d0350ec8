//go:build linux

package sessionfiles

import (
	"os"
	"testing"

	"everloop/internal/sharedfs/sharedfstest"
)

func TestMain(m *testing.M) { os.Exit(sharedfstest.Run(m)) }
