// Package archive makes the export of a session longer, so that an old session can be
// imported. It knows the format of exports, and nothing of the service.
package archive

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"strings"
)

// Lengthen gives an export that says what another one says, over and over, until it
// has so many turns.
func Lengthen(exported []byte, turns int) ([]byte, error) {
	a, err := readArchive(exported)
	if err != nil {
		return nil, err
	}

	if err := a.lengthen(turns); err != nil {
		return nil, err
	}

	return a.write()
}

// archive is an export in memory. What the benchmark does not touch stays as it is.
type archive struct {
	manifest map[string]any
	members  map[string][]byte
}

func readArchive(data []byte) (*archive, error) {
	reader, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		return nil, err
	}

	a := &archive{members: map[string][]byte{}}

	for _, file := range reader.File {
		content, err := file.Open()
		if err != nil {
			return nil, err
		}

		a.members[file.Name], err = io.ReadAll(content)
		if err != nil {
			return nil, err
		}
	}

	if err := json.Unmarshal(a.members["manifest.json"], &a.manifest); err != nil {
		return nil, err
	}

	delete(a.members, "manifest.json")

	return a, nil
}

// lengthen repeats the turns of the archive's only branch, each time in chats of
// their own. Events, checkpoints and files are left out.
func (a *archive) lengthen(turns int) error {
	var tree struct {
		Active   string           `json:"active_branch_id"`
		Branches []map[string]any `json:"branches"`
		Chats    []map[string]any `json:"chats"`
	}
	if err := json.Unmarshal(a.members["history.json"], &tree); err != nil {
		return err
	}

	if len(tree.Branches) != 1 {
		return fmt.Errorf("the session has %d branches, not one", len(tree.Branches))
	}

	var pattern []map[string]any

	for line := range strings.Lines(string(a.members["turns.jsonl"])) {
		var turn map[string]any
		if err := json.Unmarshal([]byte(line), &turn); err != nil {
			return err
		}

		pattern = append(pattern, turn)
	}

	var (
		lines  bytes.Buffer
		parent any
	)

	known := map[string]bool{}

	var chats []map[string]any

	for n := range turns {
		turn := pattern[n%len(pattern)]
		copied := func(id any) string { return fmt.Sprintf("%v-%d", id, n/len(pattern)) }
		was := map[string]any{"id": turn["id"], "chat_id": turn["chat_id"]}
		id, chat := copied(was["id"]), copied(was["chat_id"])
		turn["id"], turn["chat_id"], turn["sequence"], turn["parent_id"] = id, chat, n, parent

		line, err := json.Marshal(turn)
		if err != nil {
			return err
		}

		lines.Write(append(line, '\n'))

		turn["id"], turn["chat_id"] = was["id"], was["chat_id"]
		parent = id

		if known[chat] {
			continue
		}

		known[chat] = true

		for _, c := range tree.Chats {
			if c["id"] == was["chat_id"] {
				c["id"] = chat

				line, err := json.Marshal(c)
				if err != nil {
					return err
				}

				var one map[string]any
				if err := json.Unmarshal(line, &one); err != nil {
					return err
				}

				chats = append(chats, one)
				c["id"] = was["chat_id"]
			}
		}
	}

	tree.Branches[0]["next_sequence"], tree.Chats = turns, chats

	history, err := json.Marshal(tree)
	if err != nil {
		return err
	}

	a.members = map[string][]byte{
		"session.json": a.members["session.json"], "memories.json": a.members["memories.json"], "history.json": history,
		"turns.jsonl":  lines.Bytes(),
		"events.jsonl": {}, "checkpoints.json": []byte(`{"checkpoints": [], "snapshots": []}`),
	}
	a.manifest["counts"] = map[string]any{"turns": turns, "branches": 1}
	a.manifest["links"], a.manifest["skipped"] = []any{}, []any{}

	return nil
}

// write puts the archive together with a manifest that fits.
func (a *archive) write() ([]byte, error) {
	var listed []map[string]any
	for name, content := range a.members {
		listed = append(listed, map[string]any{"name": name, "size": len(content), "sha256": fmt.Sprintf("%x", sha256.Sum256(content))})
	}

	a.manifest["members"] = listed

	manifest, err := json.Marshal(a.manifest)
	if err != nil {
		return nil, err
	}

	a.members["manifest.json"] = manifest

	var out bytes.Buffer

	writer := zip.NewWriter(&out)
	for name, content := range a.members {
		// Stored: what says the same so often would look like a bomb when packed.
		file, err := writer.CreateHeader(&zip.FileHeader{Name: name, Method: zip.Store})
		if err != nil {
			return nil, err
		}

		if _, err := file.Write(content); err != nil {
			return nil, err
		}
	}

	err = writer.Close()

	return out.Bytes(), err
}
