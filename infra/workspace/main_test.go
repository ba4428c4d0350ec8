//go:build linux

package workspace

import (
	"os"
	"testing"

	"everloop/internal/sharedfs/sharedfstest"
)

func TestMain(m *testing.M) { os.Exit(sharedfstest.Run(m)) }
