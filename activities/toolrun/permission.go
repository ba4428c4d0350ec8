package toolrun

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"

	"everloop/activities/tools"
	"everloop/domain"
	"everloop/domain/permission"
)

// DeniedByRule is the result of a call that a permission rule denies.
const DeniedByRule = "Not carried out: a permission rule of this session denies calls like this one."

// Permissions applies the permission rules of sessions to calls, whose paths it resolves in
// their workspaces.
type Permissions struct{ Root Root }

// Decide returns the decision of the session's rules about a call.
func (p Permissions) Decide(ctx context.Context, scope tools.Scope, tool string, arguments json.RawMessage) domain.PermissionDecision {
	return permission.Decide(scope.Profile.Permissions, permission.Call{
		Tool: tool, Arguments: arguments,
		Resolve: func(path string) string { return p.resolve(ctx, scope.Session, path) },
	})
}

// resolve returns the path below the workspace that a path leads to. A part that does not
// exist, or that leaves the workspace, is returned as it is: the tool refuses it.
func (p Permissions) resolve(ctx context.Context, session domain.Session, name string) string {
	dir, err := p.Root(ctx, session.ID, session.SandboxUID)
	if err != nil {
		return name
	}

	root, err := os.OpenRoot(dir)
	if err != nil {
		return name
	}

	defer func() { _ = root.Close() }()

	return followLinks(root, name)
}

// maxLinks bounds the links of a path, as the kernel does.
const maxLinks = 40

// followLinks replaces the links of a path within a directory by what they lead to.
func followLinks(root *os.Root, name string) string {
	var (
		at    = "."
		left  = strings.Split(path.Clean(name), "/")
		links = 0
	)

	for len(left) > 0 {
		next := path.Join(at, left[0])
		left = left[1:]

		target, err := root.Readlink(next)
		if err != nil {
			at = next // not a link
			continue
		}

		if links++; links > maxLinks {
			return name
		}

		if inside, ok := strings.CutPrefix(path.Clean(target)+"/", "/workspace/"); ok {
			at, target = ".", inside
		}

		left = append(strings.Split(path.Clean("./"+target), "/"), left...)
	}

	return at
}

// refusedNow returns why a call that was planned is not carried out now: a rule denies it
// that did not when it was planned, or the user was not asked. Empty: it is carried out.
func (r *Runner) refusedNow(ctx context.Context, scope tools.Scope, call domain.LedgerCall, arguments json.RawMessage) (string, error) {
	if !slices.ContainsFunc(scope.Profile.Permissions, func(r domain.PermissionRule) bool { return r.Decision != domain.PermissionAllow }) {
		return "", nil
	}

	permissions := Permissions{r.Root}

	switch permissions.Decide(ctx, scope, call.ToolName, arguments) {
	case domain.PermissionDeny:
		return DeniedByRule, nil
	case domain.PermissionAsk:
		if scope.Headless && scope.Session.Setup.SkipConfirmations {
			return "", nil
		}

		allowed, shown, err := r.Store.Permission(ctx, call.ID)
		if err != nil {
			return "", err
		}

		if allowed {
			return changedSince(shown, permissions.Digests(ctx, call.Session, slices.Collect(maps.Keys(shown)))), nil
		}

		return "Not carried out: the permission rules have changed, and the user is asked about calls like this one now. " +
			"Make the call again.", nil
	default:
		return "", nil
	}
}

// changedSince returns why an answer does not cover the call: a file that it names has
// changed. Empty: none has.
func changedSince(shown, now map[string]string) string {
	for _, name := range slices.Sorted(maps.Keys(shown)) {
		if now[name] != shown[name] {
			return fmt.Sprintf("Not carried out: %s has changed since the user was asked, so the answer does not cover this call. "+
				"Make the call again, and the user is asked again.", tools.Quote(name))
		}
	}

	return ""
}

// maxDigested bounds the files whose content is compared, in bytes. Larger ones are
// compared by size and time.
const maxDigested = 16 << 20

// Digests returns the digests of the files that exist in the workspace, and of a file that
// does not exist the digest of nothing.
func (p Permissions) Digests(ctx context.Context, session domain.Session, names []string) map[string]string {
	if len(names) == 0 {
		return nil
	}

	dir, err := p.Root(ctx, session.ID, session.SandboxUID)
	if err != nil {
		return nil
	}

	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil
	}

	defer func() { _ = root.Close() }()

	digests := make(map[string]string, len(names))
	for _, name := range names {
		digests[name] = digestOf(root, name)
	}

	return digests
}

func digestOf(root *os.Root, name string) string {
	info, err := root.Stat(name)
	if err != nil || !info.Mode().IsRegular() {
		return ""
	}

	if info.Size() > maxDigested {
		return fmt.Sprintf("%d bytes of %d", info.Size(), info.ModTime().UnixNano())
	}

	// What was a regular file can be a pipe by now, which must not block.
	file, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return ""
	}

	defer func() { _ = file.Close() }()

	hash := sha256.New()
	if _, err := io.Copy(hash, io.LimitReader(file, maxDigested)); err != nil {
		return ""
	}

	return hex.EncodeToString(hash.Sum(nil))
}
