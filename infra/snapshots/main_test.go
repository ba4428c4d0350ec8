//go:build linux

package snapshots

import (
	"os"
	"testing"

	"everloop/internal/sharedfs/sharedfstest"
)

func TestMain(m *testing.M) { os.Exit(sharedfstest.RunMachines(m)) }
