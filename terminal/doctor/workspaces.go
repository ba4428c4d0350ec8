package doctor

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"everloop/infra/external"
	"everloop/infra/sandbox"
	"everloop/internal/sharedfs"
)

// workspaces checks the requirements of session files on the file system, which several
// machines may share.
func workspaces(ctx context.Context, s Settings) []Check {
	dir, _ := existing(filepath.Join(s.DataDir, "workspace"))
	if unix.Access(dir, unix.W_OK|unix.X_OK) != nil && !strings.HasPrefix(dir, s.DataDir) {
		return nil // the data directory's own check reports it
	}

	uid := 0
	if os.Geteuid() == 0 {
		uid = cmp.Or(s.Sandbox.UserBase, sandbox.DefaultUserBase)
	}

	findings, err := sharedfs.Probe(ctx, dir, uid)
	if err != nil {
		return one("workspaces", Fail, "cannot be tried: "+external.Cause(err),
			fmt.Sprintf("let user id %d write to %s, or set DATA_DIR", os.Geteuid(), dir))
	}

	states := map[sharedfs.Level]State{sharedfs.OK: OK, sharedfs.Info: Info, sharedfs.Warn: Warn, sharedfs.Fail: Fail}

	var checks []Check
	for _, f := range findings {
		checks = append(checks, Check{Name: "workspace " + f.About, State: states[f.Level], Detail: f.Detail, Hint: f.Hint})
	}

	return checks
}
