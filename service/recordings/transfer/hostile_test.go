package transfer_test

import (
	"archive/zip"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"everloop/domain"
	"everloop/service/recordings/transfer"
)

// box is an archive that is taken apart, to be put together otherwise.
type box struct {
	t       testing.TB
	names   []string
	content map[string]string
	change  map[string]func(*zip.FileHeader)
}

func unpack(t testing.TB, data []byte) *box {
	t.Helper()

	z, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
	require.NoError(t, err)
	b := &box{t: t, content: map[string]string{}, change: map[string]func(*zip.FileHeader){}}

	for _, f := range z.File {
		r, err := f.Open()
		require.NoError(t, err)
		content, err := io.ReadAll(r)
		require.NoError(t, err)
		b.put(f.Name, string(content))
	}

	return b
}

func (b *box) put(name, content string) {
	if _, known := b.content[name]; !known {
		b.names = append(b.names, name)
	}

	b.content[name] = content
}

func (b *box) edit(name, from, to string) {
	b.t.Helper()
	require.Contains(b.t, b.content[name], from)
	b.content[name] = strings.ReplaceAll(b.content[name], from, to)
}

// json changes a member that is one JSON object.
func (b *box) json(name string, change func(map[string]any)) {
	b.t.Helper()

	var v map[string]any
	require.NoError(b.t, json.Unmarshal([]byte(b.content[name]), &v))
	change(v)
	data, err := json.Marshal(v)
	require.NoError(b.t, err)
	b.content[name] = string(data)
}

// turn changes one line of turns.jsonl.
func (b *box) turn(n int, change func(map[string]any)) {
	b.t.Helper()
	lines := strings.Split(strings.TrimSpace(b.content["turns.jsonl"]), "\n")

	var v map[string]any
	require.NoError(b.t, json.Unmarshal([]byte(lines[n]), &v))
	change(v)
	data, err := json.Marshal(v)
	require.NoError(b.t, err)

	lines[n] = string(data)
	b.content["turns.jsonl"] = strings.Join(lines, "\n")
}

// sign lists the members as they are now, with their right hashes.
func (b *box) sign() {
	b.json("manifest.json", func(m map[string]any) {
		members := []map[string]any{}

		for _, name := range b.names {
			if name != "manifest.json" && !strings.HasSuffix(name, "/") {
				members = append(
					members,
					map[string]any{
						"name":   name,
						"size":   len(b.content[name]),
						"sha256": fmt.Sprintf("%x", sha256.Sum256([]byte(b.content[name]))),
					},
				)
			}
		}

		m["members"] = members
	})
}

func (b *box) pack() []byte {
	var out bytes.Buffer

	w := zip.NewWriter(&out)

	for _, name := range b.names {
		h := &zip.FileHeader{Name: name, Method: zip.Deflate}
		if len(b.content[name]) > 1<<20 {
			h.Method = zip.Store
		}

		h.SetMode(0o644)

		if change := b.change[name]; change != nil {
			change(h)
		}

		f, err := w.CreateHeader(h)
		require.NoError(b.t, err)

		if !strings.HasSuffix(name, "/") {
			_, err = f.Write([]byte(b.content[name]))
			require.NoError(b.t, err)
		}
	}

	require.NoError(b.t, w.Close())

	return out.Bytes()
}

func (b *box) links(list ...string) {
	b.json("manifest.json", func(m map[string]any) {
		links := []map[string]any{}
		for i := 0; i < len(list); i += 2 {
			links = append(links, map[string]any{"path": list[i], "target": list[i+1]})
		}

		m["links"] = links
	})
}

func TestArchivesThatAreRefusedLeaveNothingBehind(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	source := h.furnish()
	data := h.export(source)
	before := h.traces()

	const (
		unsigned = false
		signed   = true
	)

	zeros := strings.Repeat("\x00", 30<<20)

	for name, c := range map[string]struct {
		sign   bool
		change func(*box)
	}{
		"a wrong hash":         {unsigned, func(b *box) { b.edit("workspace/a.txt", "alpha", "omega") }},
		"a wrong size":         {unsigned, func(b *box) { b.edit("workspace/a.txt", "alpha", "alphabet") }},
		"a member too many":    {unsigned, func(b *box) { b.put("workspace/evil", "x") }},
		"a member too few":     {unsigned, func(b *box) { b.names = remove(b.names, "workspace/a.txt") }},
		"a place that is none": {signed, func(b *box) { b.put("etc/passwd", "x") }},
		"a path that escapes":  {signed, func(b *box) { b.put("workspace/../../evil", "x") }},
		"an absolute path":     {signed, func(b *box) { b.put("/etc/evil", "x") }},
		"a backslash":          {signed, func(b *box) { b.put(`workspace\evil`, "x") }},
		"a link as a member": {signed, func(b *box) {
			b.put("workspace/l", "/etc/passwd")
			b.change["workspace/l"] = func(h *zip.FileHeader) { h.SetMode(fs.ModeSymlink | 0o777) }
		}},
		"a bomb": {signed, func(b *box) {
			b.put("workspace/bomb", zeros)
			b.change["workspace/bomb"] = func(h *zip.FileHeader) { h.Method = zip.Deflate }
		}},
		"a blob of another name": {signed, func(b *box) { b.put("blobs/"+strings.Repeat("0", 64), "x") }},
		"a blob without a hash":  {signed, func(b *box) { b.put("blobs/x", "x") }},
		"a picture that is none": {signed, func(b *box) {
			b.put(fmt.Sprintf("attachments/%x", sha256.Sum256([]byte("<script>"))), "<script>")
		}},
		"no manifest":             {unsigned, func(b *box) { b.names = remove(b.names, "manifest.json") }},
		"no turns":                {signed, func(b *box) { b.names = remove(b.names, "turns.jsonl") }},
		"another format":          {unsigned, func(b *box) { b.json("manifest.json", func(m map[string]any) { m["format_version"] = 2 }) }},
		"a broken manifest":       {unsigned, func(b *box) { b.content["manifest.json"] = `{"format_version":1,` }},
		"two values in one":       {signed, func(b *box) { b.content["session.json"] += "{}" }},
		"broken turns":            {signed, func(b *box) { b.content["turns.jsonl"] += "{\n" }},
		"an event that is none":   {signed, func(b *box) { b.content["events.jsonl"] += "[]\n" }},
		"a link out":              {unsigned, func(b *box) { b.links("l", "../x") }},
		"a link to the root":      {unsigned, func(b *box) { b.links("l", "/etc/passwd") }},
		"a link out by a detour":  {unsigned, func(b *box) { b.links("l", "deep/../../x") }},
		"a link up behind a link": {unsigned, func(b *box) { b.links("here", ".", "l", "here/../x") }},
		"a link over a file":      {unsigned, func(b *box) { b.links("a.txt", "empty") }},
		"a link twice":            {unsigned, func(b *box) { b.links("l", "empty", "l", "a.txt") }},
		"a file below a link":     {unsigned, func(b *box) { b.links("deep", "bin") }},
		"a link below a link":     {unsigned, func(b *box) { b.links("l", "bin", "l/m", "run.sh") }},
		"a link without a name":   {unsigned, func(b *box) { b.links("", "a.txt") }},
		"a foreign branch": {signed, func(b *box) {
			b.turn(0, func(e map[string]any) { e["branch_id"] = string(source.ActiveBranchID) + "x" })
		}},
		"a foreign chat":   {signed, func(b *box) { b.turn(0, func(e map[string]any) { e["chat_id"] = "other" }) }},
		"a foreign parent": {signed, func(b *box) { b.turn(1, func(e map[string]any) { e["parent_id"] = "other" }) }},
		"its own parent":   {signed, func(b *box) { b.turn(1, func(e map[string]any) { e["parent_id"] = e["id"] }) }},
		"a foreign loop":   {signed, func(b *box) { b.turn(1, func(e map[string]any) { e["loop_id"] = "call_other" }) }},
		"a foreign fork": {signed, func(b *box) {
			b.turn(1, func(e map[string]any) { e["parent_fork_tool_call_id"] = "call_other" })
		}},
		"an id twice":           {signed, func(b *box) { b.turn(1, func(e map[string]any) { e["id"] = firstID(b) }) }},
		"an id that is none":    {signed, func(b *box) { b.turn(5, func(e map[string]any) { e["id"] = "a b" }) }},
		"a hole in the numbers": {signed, func(b *box) { b.turn(0, func(e map[string]any) { e["sequence"] = 7 }) }},
		"a huge number":         {signed, func(b *box) { b.turn(0, func(e map[string]any) { e["sequence"] = 1e15 }) }},
		"a status that is none": {signed, func(b *box) { b.turn(0, func(e map[string]any) { e["status"] = "golden" }) }},
		"a role that is none":   {signed, func(b *box) { b.turn(0, func(e map[string]any) { e["role"] = "god" }) }},
		"a type that is wrong":  {signed, func(b *box) { b.turn(0, func(e map[string]any) { e["blocks"] = 7 }) }},
		"a NUL in a text": {signed, func(b *box) {
			b.turn(0, func(e map[string]any) { e["blocks"] = []any{map[string]any{"type": "text", "content": "\x00"}} })
		}},
		"too many calls": {signed, func(b *box) { b.turn(1, func(e map[string]any) { e["tool_calls"] = calls(10_001) }) }},
		"a server's call id that is too long": {signed, func(b *box) {
			b.turn(1, func(e map[string]any) { call(e)["server_call_id"] = strings.Repeat("x", domain.MaxServerCallID+1) })
		}},
		"members of a server that are no object": {signed, func(b *box) {
			b.turn(1, func(e map[string]any) { e["server_members"] = "[1]" })
		}},
		"members of a server that are too large": {signed, func(b *box) {
			b.turn(1, func(e map[string]any) {
				call(e)["server_members"] = `{"a":"` + strings.Repeat("x", domain.MaxServerMembers) + `"}`
			})
		}},
		"a server's call id with a NUL": {signed, func(b *box) {
			b.turn(1, func(e map[string]any) { call(e)["server_call_id"] = "a\x00" })
		}},
		"a connection with a NUL": {signed, func(b *box) {
			b.turn(1, func(e map[string]any) {
				call(e)["connections"] = []any{map[string]any{"host": "a\x00", "port": 1, "decision": "allowed"}}
			})
		}},
		"a connection without a decision": {signed, func(b *box) {
			b.turn(1, func(e map[string]any) { call(e)["connections"] = []any{map[string]any{"host": "a", "port": 1}} })
		}},
		"too many connections": {signed, func(b *box) {
			b.turn(1, func(e map[string]any) {
				many := make([]any, domain.MaxConnections+3)
				for i := range many {
					many[i] = map[string]any{"host": "a", "port": i, "decision": "allowed"}
				}

				call(e)["connections"] = many
			})
		}},
		"an image of another session": {signed, func(b *box) {
			b.turn(1, func(e map[string]any) {
				call(e)["images"] = []any{
					map[string]any{"attachment": "../other/" + strings.Repeat("0", 55), "mime_type": "image/png", "bytes": 1},
				}
			})
		}},
		"too many images": {signed, func(b *box) {
			b.turn(1, func(e map[string]any) {
				one := map[string]any{"attachment": strings.Repeat("0", 64), "mime_type": "image/png", "bytes": 1}
				call(e)["images"] = slices.Repeat([]any{one}, domain.MaxCallImages+1)
			})
		}},
		"a reasoning field that is none": {signed, func(b *box) { b.turn(1, func(e map[string]any) { e["reasoning_field"] = "content" }) }},
		"a compaction in a turn": {signed, func(b *box) {
			b.turn(0, func(e map[string]any) { e["compaction"] = map[string]any{"kept_from": 0} })
		}},
		"no branches": {signed, func(b *box) {
			b.json("history.json", func(m map[string]any) { m["branches"] = []any{} })
		}},
		"no active branch": {signed, func(b *box) {
			b.json("history.json", func(m map[string]any) { m["active_branch_id"] = "x" })
		}},
		"a fork without end": {signed, func(b *box) {
			b.json("history.json", func(m map[string]any) { branch(m, 1)["next_sequence"] = 1 << 40 })
		}},
		"a branch of the future": {signed, func(b *box) {
			b.json("history.json", func(m map[string]any) { branch(m, 0)["parent_branch_id"] = branch(m, 1)["id"] })
		}},
		"a lineage beyond": {signed, func(b *box) {
			b.json("history.json", func(m map[string]any) { branch(m, 1)["lineage"].([]any)[0].(map[string]any)["upto"] = 99 })
		}},
		"a foreign snapshot": {signed, func(b *box) {
			b.json("checkpoints.json", func(m map[string]any) { m["checkpoints"].([]any)[0].(map[string]any)["snapshot_id"] = "other.aa" })
		}},
		"a snapshot that escapes": {signed, func(b *box) {
			b.json("checkpoints.json", func(m map[string]any) { file(m)["path"] = "../../evil" })
		}},
		"a snapshot of nothing": {signed, func(b *box) {
			b.json("checkpoints.json", func(m map[string]any) { file(m)["sha256"] = strings.Repeat("0", 64) })
		}},
		"a snapshot with a link": {signed, func(b *box) {
			b.json("checkpoints.json", func(m map[string]any) { f := file(m); f["type"], f["target"] = "link", "/etc" })
		}},
		"another session":         {signed, func(b *box) { b.json("session.json", func(m map[string]any) { m["id"] = "other" }) }},
		"a mode that is none":     {signed, func(b *box) { b.json("session.json", func(m map[string]any) { m["mode"] = "dreaming" }) }},
		"extra that is no object": {signed, func(b *box) { b.json("session.json", func(m map[string]any) { m["extra"] = []any{1} }) }},
	} {
		b := unpack(t, data)
		if c.sign {
			c.change(b)
			b.sign()
		} else {
			c.change(b)
		}

		packed := b.pack()
		_, _, err := h.load(packed)
		require.Error(t, err, name)
		kind := domain.AsError(err).Kind
		require.True(t, kind == domain.Invalid || kind == domain.TooLarge, "%s: %v", name, err)
		require.NotContains(t, err.Error(), h.dir, name)
		require.Equal(t, before, h.traces(), name)
		preview, err := h.service.Preview(t.Context(), h.owner, bytes.NewReader(packed), int64(len(packed)))
		require.NoError(t, err, name)

		if name != "a NUL in a text" && name != "a picture that is none" { // the database and the store refuse these
			require.False(t, preview.Compatible, name)
			require.NotEmpty(t, preview.Errors, name)
		}
	}

	for _, junk := range [][]byte{nil, []byte("PK"), []byte("not a zip"), data[:len(data)/2], data[:len(data)-1]} {
		_, _, err := h.load(junk)
		require.Equal(t, domain.Invalid, domain.AsError(err).Kind)
	}

	require.Equal(t, before, h.traces())
	b := unpack(t, data) // what is taken apart and put together again is still good
	b.sign()
	_, _, err := h.load(b.pack())
	require.NoError(t, err)
}

func remove(list []string, name string) []string {
	var out []string

	for _, n := range list {
		if n != name {
			out = append(out, n)
		}
	}

	return out
}

func firstID(b *box) any {
	var e map[string]any

	_ = json.Unmarshal([]byte(strings.SplitN(b.content["turns.jsonl"], "\n", 2)[0]), &e)

	return e["id"]
}

func calls(n int) []any {
	list := make([]any, n)
	for i := range list {
		list[i] = map[string]any{"id": fmt.Sprintf("c%d", i), "status": "done", "phase": "finished"}
	}

	return list
}

func branch(m map[string]any, i int) map[string]any { return m["branches"].([]any)[i].(map[string]any) }

func call(entry map[string]any) map[string]any {
	return entry["tool_calls"].([]any)[0].(map[string]any)
}

func file(m map[string]any) map[string]any {
	return m["snapshots"].([]any)[0].(map[string]any)["files"].([]any)[0].(map[string]any)
}

// FuzzPreview holds that no archive does harm: there is an answer, and it is
// about the archive.
func FuzzPreview(f *testing.F) {
	var out bytes.Buffer

	w := zip.NewWriter(&out)
	members := map[string]string{
		"session.json": `{"id":"s","mode":"executing","status":"completed"}`, "turns.jsonl": "", "events.jsonl": "",
		"history.json":     `{"active_branch_id":"b","branches":[{"id":"b","lineage":[],"reason":"root"}],"chats":[]}`,
		"checkpoints.json": `{"checkpoints":[],"snapshots":[]}`, "memories.json": "[]", "workspace/a": "a",
	}
	list := []map[string]any{}

	for name, content := range members {
		m, err := w.Create(name)
		require.NoError(f, err)

		_, _ = m.Write([]byte(content))
		list = append(list, map[string]any{"name": name, "size": len(content), "sha256": fmt.Sprintf("%x", sha256.Sum256([]byte(content)))})
	}

	manifest, err := json.Marshal(
		map[string]any{
			"format_version": 1,
			"session":        map[string]any{"id": "s"},
			"members":        list,
			"links":          []any{map[string]any{"path": "l", "target": "a"}},
		},
	)
	require.NoError(f, err)
	m, err := w.Create("manifest.json")
	require.NoError(f, err)

	_, _ = m.Write(manifest)

	require.NoError(f, w.Close())

	service := &transfer.Service{}
	preview, err := service.Preview(context.Background(), "owner", bytes.NewReader(out.Bytes()), int64(out.Len()))
	require.NoError(f, err)
	require.True(f, preview.Compatible, preview.Errors)

	f.Add(out.Bytes(), uint16(0), byte(0))
	f.Fuzz(func(t *testing.T, data []byte, at uint16, flip byte) {
		if len(data) > 0 {
			data = bytes.Clone(data)
			data[int(at)%len(data)] ^= flip
		}

		preview, err := service.Preview(context.Background(), "owner", bytes.NewReader(data), int64(len(data)))
		if err != nil {
			t.Fatal(err)
		}

		if preview.Compatible == (len(preview.Errors) > 0) {
			t.Fatalf("compatible %v with errors %v", preview.Compatible, preview.Errors)
		}
	})
}
