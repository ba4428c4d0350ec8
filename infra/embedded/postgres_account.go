package embedded

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// account is the user of PostgreSQL when this process is root, because the server refuses to run
// as root. A nil account is this process's user.
type account struct {
	name     string
	uid, gid int
}

// serverAccount returns the user of the server: this process's user if it is not root; else the
// owner of an existing cluster, the user postgres, or nobody. PostgreSQL's programs look up their
// user by name, so it must be in the user database.
func serverAccount(dataDir string) (*account, error) {
	owner, exists := ownerOf(dataDir)
	if uid := os.Geteuid(); uid != 0 {
		if exists && owner != uid {
			return nil, fmt.Errorf(
				"%s belongs to user id %d, but this process runs as %d: start it as that user, or as root",
				dataDir,
				owner,
				uid,
			)
		}

		return nil, nil
	}

	if exists {
		if owner == 0 {
			return nil, fmt.Errorf(
				"%s belongs to root, whom PostgreSQL refuses to run as: give it to the user postgres (chown -R)",
				dataDir,
			)
		}

		found, err := user.LookupId(strconv.Itoa(owner))
		if err != nil {
			return nil, fmt.Errorf("%s belongs to user id %d, which is not in the user database: %w", dataDir, owner, err)
		}

		return newAccount(found)
	}

	for _, name := range []string{"postgres", "nobody"} {
		if found, err := user.Lookup(name); err == nil {
			return newAccount(found)
		}
	}

	return nil, errors.New(
		"PostgreSQL refuses to run as root, and there is no user postgres or nobody to run it as: create one (useradd --system " +
			"postgres), or start Everloop as an ordinary user",
	)
}

func newAccount(found *user.User) (*account, error) {
	uid, err := strconv.Atoi(found.Uid)
	if err != nil {
		return nil, err
	}

	gid, err := strconv.Atoi(found.Gid)
	if err != nil {
		return nil, err
	}

	return &account{name: found.Username, uid: uid, gid: gid}, nil
}

func ownerOf(path string) (uid int, exists bool) {
	var stat unix.Stat_t
	if err := unix.Lstat(path, &stat); err != nil {
		return 0, false
	}

	return int(stat.Uid), true
}

// apply sets the user of cmd to the account.
func (a *account) apply(cmd *exec.Cmd) {
	if a == nil {
		return
	}

	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}

	cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(a.uid), Gid: uint32(a.gid)}
}

// chown changes the owner of path to the account.
func (a *account) chown(path string) error {
	if a == nil {
		return nil
	}

	return os.Lchown(path, a.uid, a.gid)
}

// privateDir creates dir with mode 0700, owned by the account. An existing directory of another
// user is an error.
func (a *account) privateDir(dir string) error {
	err := os.Mkdir(dir, 0o700)
	if err == nil {
		return a.chown(dir)
	}

	info, statErr := os.Lstat(dir)
	if statErr != nil {
		return err
	}

	owner, _ := ownerOf(dir)

	want := os.Geteuid()
	if a != nil {
		want = a.uid
	}

	if !info.IsDir() || owner != want || info.Mode().Perm() != 0o700 {
		return fmt.Errorf("%s is not a private directory of user id %d", dir, want)
	}

	return nil
}

// canWalkTo reports whether the account can traverse dir and every directory above it. It checks
// modes only, not ACLs.
func (a *account) canWalkTo(dir string) bool {
	if a == nil {
		return true
	}

	for {
		var stat unix.Stat_t
		if err := unix.Stat(dir, &stat); err != nil {
			return false
		}

		search := stat.Mode & 0o001
		switch {
		case int(stat.Uid) == a.uid:
			search = stat.Mode & 0o100
		case int(stat.Gid) == a.gid:
			search = stat.Mode & 0o010
		}

		if search == 0 {
			return false
		}

		if dir == filepath.Dir(dir) {
			return true
		}

		dir = filepath.Dir(dir)
	}
}
