package history

import (
	"context"
	"encoding/json"
	"path"
	"strings"

	"everloop/domain"
	"everloop/domain/history"
)

// maxChanges bounds the events of one look at the files: of more paths, one event
// names the directory that has them all.
const maxChanges = 100

// emitCaptured emits what commands, tool servers and users did to the files
// since the capture before. Changes by Write and Edit in the captured turns were
// emitted with their calls.
func (c *Capturer) emitCaptured(ctx context.Context, sessionID domain.SessionID, base history.CaptureBase, snapshot string) {
	if base.Snapshot == "" || base.Snapshot == snapshot {
		return // the first capture of a session says what there is, not what changed
	}

	changed, err := c.cfg.Files.Diff(ctx, base.Snapshot, snapshot)
	if err == nil {
		err = c.cfg.Store.sessions.FilesChanged(ctx, sessionID, announced(changed, writtenPaths(base.Calls)))
	}

	if err != nil {
		c.cfg.Logger.Warn("failed to emit the changes of files", "session_id", sessionID, "error", err)
	}
}

// emitMoved emits what a move did to the files.
func (d *Service) emitMoved(ctx context.Context, op history.Operation) {
	snapshot, left, err := d.HistoryFiles(ctx, op.ID)
	if err != nil || snapshot == "" || left == "" || snapshot == left {
		return
	}

	changed, err := d.cfg.Files.Diff(ctx, left, snapshot)
	if err == nil {
		err = d.Store.sessions.FilesChanged(ctx, op.SessionID, announced(changed, nil))
	}

	if err != nil {
		d.cfg.Logger.Warn("failed to emit the changes of files", "session_id", op.SessionID, "operation_id", op.ID, "error", err)
	}
}

// announced returns the changes to emit: all but those of known paths, or one of their
// common directory.
func announced(changed []history.FileDifference, known map[string]bool) []domain.FileChange {
	var out []domain.FileChange

	for _, c := range changed {
		if !known[c.Path] {
			out = append(out, domain.FileChange{Path: c.Path, Change: c.Change})
		}
	}

	if len(out) <= maxChanges {
		return out
	}

	common := path.Dir(out[0].Path)
	for _, c := range out[1:] {
		for common != "." && !strings.HasPrefix(c.Path, common+"/") {
			common = path.Dir(common)
		}
	}

	return []domain.FileChange{{Path: common, Change: "modified"}}
}

// writtenPaths returns the paths in the arguments of calls of Write and Edit, relative to
// the workspace.
func writtenPaths(calls []string) map[string]bool {
	paths := map[string]bool{}

	for _, arguments := range calls {
		var in struct {
			Path string `json:"file_path"`
		}
		if json.Unmarshal([]byte(arguments), &in) == nil {
			cleaned := path.Clean("/" + in.Path)
			paths[strings.TrimPrefix(strings.TrimPrefix(cleaned, "/workspace/"), "/")] = true
		}
	}

	return paths
}
