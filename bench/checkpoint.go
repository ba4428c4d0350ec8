package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"everloop/bench/result"
	"everloop/bench/target"
)

const (
	checkpointDirs   = 50
	checkpointFiles  = 1000 // in each of them
	checkpointRounds = 10
	rewindRounds     = 6
	rewindFiles      = 10
	// checkpointGoal is how long a checkpoint of an unchanged workspace may take, in ms.
	checkpointGoal = 600
	// checkpointPoll is how often the list of checkpoints is asked for the files.
	checkpointPoll = 10 * time.Millisecond
	// checkpointAge is how long files must have been left alone before a look at
	// their times is enough.
	checkpointAge = 3 * time.Second
)

// fillTree writes 50,000 files.
const fillTree = `for d in {0..49}; do mkdir -p pkg$d/src; for f in {1..1000}; do echo "package p$d // $f" > pkg$d/src/f$f.go; done; done`

// checkpointed is what the list says of a checkpoint.
type checkpointed struct {
	ID     string `json:"checkpoint_id"`
	TurnID string `json:"turn_id"`
	Kind   string `json:"kind"`
	Files  struct {
		SnapshotID *string `json:"snapshot_id"`
	} `json:"files"`
}

// measureCheckpoint takes what checkpoints of a large workspace cost, and whether
// they delay the model's answer. The baseline is a plain walk over an equal tree
// that asks for the times of each file.
func measureCheckpoint(ctx context.Context, b *bench) error {
	tree := filepath.Join(b.server.Dir, "tree")
	if err := makeTree(tree); err != nil {
		return err
	}

	large, err := b.client.CreateSession(ctx)
	if err != nil {
		return err
	}

	began := time.Now()

	if _, err := b.client.Completed(ctx, large, bashScript(fillTree)); err != nil {
		return err
	}

	b.value("a command writes 50,000 files", "s", time.Since(began).Seconds(), nil)
	// The first look reads all files, the second may still have to.
	for range 2 {
		if err := wait(ctx, checkpointAge); err != nil {
			return err
		}

		began := time.Now()

		if _, err := b.checkpoint(ctx, large); err != nil {
			return err
		}

		b.value("checkpoint, files not yet known", "ms", result.Milliseconds(time.Since(began)), nil)
	}

	small, err := b.client.CreateSession(ctx)
	if err != nil {
		return err
	}

	if err := b.unchanged(ctx, large, small, tree); err != nil {
		return err
	}

	return b.rewinds(ctx, large, tree)
}

// unchanged takes checkpoints of files that did not change, and what they
// leave of the first text.
func (b *bench) unchanged(ctx context.Context, large, small, tree string) error {
	var took, bare, first, firstSmall result.Sample

	for range checkpointRounds {
		began := time.Now()

		if err := walkTree(tree); err != nil {
			return err
		}

		bare.Add(time.Since(began))
		b.model.Take()

		seen, err := b.client.Completed(ctx, small, target.HelloScript)
		if err != nil {
			return err
		}

		if err := b.firstToken(&firstSmall, seen, nil); err != nil {
			return err
		}

		if seen, err = b.client.Completed(ctx, large, target.HelloScript); err != nil {
			return err
		}

		if err := b.firstToken(&first, seen, nil); err != nil {
			return err
		}

		if err := b.captured(ctx, large, ""); err != nil {
			return err
		}

		one, err := b.checkpoint(ctx, large)
		if err != nil {
			return err
		}

		took.Add(one)
	}

	b.samples("checkpoint of 50,000 unchanged files", "ms", took, bare, result.AtMost(checkpointGoal))
	b.samples("first text while it runs (bare: an empty workspace)", "ms", first, firstSmall, nil)

	return nil
}

// rewinds goes back over chats that changed 10 files each.
func (b *bench) rewinds(ctx context.Context, session, tree string) error {
	var took, bare result.Sample

	for round := range rewindRounds {
		command := fmt.Sprintf(`for d in {1..%d}; do echo "round %d" > pkg$d/src/f7.go; done`, rewindFiles, round)
		if _, err := b.client.Completed(ctx, session, bashScript(command)); err != nil {
			return err
		}

		target, err := b.newest(ctx, session)
		if err != nil {
			return err
		}

		var moved struct {
			Files struct {
				Restored int   `json:"restored"`
				Deleted  int   `json:"deleted"`
				Skipped  []any `json:"skipped"`
			} `json:"files"`
		}

		began := time.Now()

		path, body := "/api/sessions/"+session+"/rewind", map[string]any{"checkpoint_id": target.ID}
		if err := b.client.Call(ctx, http.MethodPost, path, body, &moved); err != nil {
			return err
		}

		took.Add(time.Since(began))

		if moved.Files.Restored != rewindFiles || moved.Files.Deleted > 0 || len(moved.Files.Skipped) > 0 {
			return fmt.Errorf(
				"a rewind over %d changed files restored %d, deleted %d and skipped %v",
				rewindFiles,
				moved.Files.Restored,
				moved.Files.Deleted,
				moved.Files.Skipped,
			)
		}

		began = time.Now()

		if err := restoreTree(tree); err != nil {
			return err
		}

		bare.Add(time.Since(began))
	}

	b.samples("rewind, 10 of 50,000 files changed", "ms", took, bare, nil)

	return nil
}

// checkpoint sends a message that needs no tool, and gives the time from its
// sending until the files before it were captured.
func (b *bench) checkpoint(ctx context.Context, session string) (time.Duration, error) {
	before, err := b.newest(ctx, session)
	if err != nil {
		return 0, err
	}

	began := time.Now()
	over := make(chan error, 1)

	go func() {
		_, err := b.client.Completed(ctx, session, target.HelloScript)
		over <- err
	}()

	err = b.captured(ctx, session, before.ID)
	took := time.Since(began)

	return took, errors.Join(err, <-over)
}

// captured waits until the files of the newest checkpoint are kept, if it is not
// the one named.
func (b *bench) captured(ctx context.Context, session, not string) error {
	ctx, cancel := context.WithTimeout(ctx, target.Patience)
	defer cancel()

	for {
		newest, err := b.newest(ctx, session)
		if err != nil || newest.ID != not && newest.Files.SnapshotID != nil {
			return err
		}

		if err := wait(ctx, checkpointPoll); err != nil {
			return err
		}
	}
}

// newest gives the last checkpoint before a user's turn.
func (b *bench) newest(ctx context.Context, session string) (checkpointed, error) {
	var list []checkpointed
	if err := b.client.Call(ctx, http.MethodGet, "/api/sessions/"+session+"/checkpoints", nil, &list); err != nil {
		return checkpointed{}, err
	}

	for i := len(list) - 1; i >= 0; i-- {
		if list[i].Kind == "user_turn" {
			return list[i], nil
		}
	}

	return checkpointed{}, fmt.Errorf("session %s has no checkpoint", session)
}

// bashScript has the model run one command.
func bashScript(command string) string {
	arguments, _ := json.Marshal(map[string]string{"command": command}) //nolint:errchkjson // a map of strings
	return fmt.Sprintf(`[[script]]{"steps":[{"calls":[{"name":"Bash","arguments":%s}]},{"text":"Done."}]}[[/script]]`, arguments)
}

// makeTree writes what fillTree writes.
func makeTree(root string) error {
	for d := range checkpointDirs {
		dir := filepath.Join(root, fmt.Sprintf("pkg%d/src", d))
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}

		for f := 1; f <= checkpointFiles; f++ {
			text := fmt.Sprintf("package p%d // %d\n", d, f)
			if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("f%d.go", f)), []byte(text), 0o644); err != nil {
				return err
			}
		}
	}

	return nil
}

// walkTree is the least that a look for changes must do.
func walkTree(root string) error {
	files := 0

	err := filepath.WalkDir(root, func(_ string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}

		files++
		_, err = entry.Info()

		return err
	})
	if err == nil && files != checkpointDirs*checkpointFiles {
		err = fmt.Errorf("the tree of the baseline has %d files", files)
	}

	return err
}

// restoreTree is the least that going back must do: to look for what changed, and
// to write it.
func restoreTree(root string) error {
	if err := walkTree(root); err != nil {
		return err
	}

	for d := 1; d <= rewindFiles; d++ {
		path := filepath.Join(root, fmt.Sprintf("pkg%d/src/f7.go", d))
		if err := os.WriteFile(path+".new", fmt.Appendf(nil, "package p%d // 7\n", d), 0o644); err != nil {
			return err
		}

		if err := os.Rename(path+".new", path); err != nil {
			return err
		}
	}

	return nil
}
