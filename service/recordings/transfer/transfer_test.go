package transfer_test

import (
	"archive/zip"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"everloop/domain"
	domaintransfer "everloop/domain/transfer"
	"everloop/infra/objects"
	"everloop/infra/postgres"
	"everloop/infra/postgres/pg"
	"everloop/infra/postgres/pgtest"
	"everloop/infra/snapshots"
	"everloop/infra/workspace"
	"everloop/internal/testkit"
	"everloop/service/accounts"
	"everloop/service/files"
	"everloop/service/memories"
	"everloop/service/recordings"
	"everloop/service/recordings/transfer"
)

// nothingLogged is an event log without events.
type nothingLogged struct{}

func (nothingLogged) Read(context.Context, domain.SessionID, uint64, uint64, func(domain.LoggedEvent) error) error {
	return nil
}

// house is an installation: records, objects and files.
type house struct {
	t       testing.TB
	dir     string
	url     string // of the database
	db      *postgres.DB
	objects *objects.Store
	carrier files.Carrier
	service *transfer.Service
	owner   string
}

func newHouse(t testing.TB) *house {
	t.Helper()
	h := &house{t: t, dir: t.TempDir(), owner: domain.NewID()}

	var err error

	h.url = testkit.Postgres(t)
	h.db, err = postgres.Open(t.Context(), h.url, postgres.Options{MaxConns: 8})
	require.NoError(t, err)
	t.Cleanup(h.db.Close)

	bucket := testkit.Objects(t)
	h.objects, err = objects.Open(
		t.Context(),
		objects.Config{Endpoint: bucket.Endpoint, Bucket: bucket.Name, AccessKey: bucket.AccessKey, SecretKey: bucket.SecretKey},
	)
	require.NoError(t, err)

	spool := filepath.Join(h.dir, "spool")
	require.NoError(t, os.MkdirAll(spool, 0o700))
	require.NoError(t, os.MkdirAll(filepath.Join(h.dir, "workspace"), 0o711))
	h.carrier = files.Carrier{
		Workspaces: workspace.New(filepath.Join(h.dir, "workspace")),
		Snapshots:  snapshots.New(snapshots.Config{Objects: h.objects, SpoolDir: spool}),
	}
	h.service = h.process(h.db)
	_, _, err = accounts.New(h.db.DB).CreateUser(t.Context(), domain.User{ID: h.owner, Username: "owner"},
		domain.APIKey{ID: domain.NewID(), UserID: h.owner, Name: "k", Masked: "m", Scopes: []string{}}, make([]byte, 32))
	require.NoError(t, err)

	return h
}

// process returns the service as another process would have it.
func (h *house) process(db *postgres.DB) *transfer.Service {
	h.t.Helper()

	deps := recordings.Deps{
		DB: db.DB, Outbox: pg.NewOutbox(db.DB, &pgtest.Log{}, slog.New(slog.DiscardHandler)), Log: nothingLogged{},
		Objects: h.objects, Files: h.carrier, Runs: runs{h: h}, Logger: slog.New(slog.DiscardHandler),
	}
	archive, err := recordings.New(deps)
	require.NoError(h.t, err)
	service, err := transfer.New(transfer.Config{
		Deps: deps, Archive: archive, Roles: accounts.New(h.db.DB).AllowedRoles, Memories: memories.New(h.db.DB).SessionMemories,
		Known:   func(_ context.Context, kind, name string) bool { return kind != "model" || name == "known" },
		Version: "2026.11.21", Spool: filepath.Join(h.dir, "spool"),
	})
	require.NoError(h.t, err)

	return service
}

var png = []byte("\x89PNG\r\n\x1a\n and so on")

const secret = "s3cr3t-value-9931"

// furnish makes a session with everything that one can have.
func (h *house) furnish() domain.Session {
	t, ctx := h.t, h.t.Context()
	id := domain.NewID()
	begun, err := h.service.BeginUpload(ctx, domain.SessionID(id), h.owner, 1)
	require.NoError(t, err)
	require.True(t, begun)

	_, err = h.service.StartImport(
		ctx,
		domaintransfer.ImportRequest{OwnerID: h.owner, Upload: domaintransfer.ArchiveUpload{SessionID: domain.SessionID(id)}},
		nil,
	)
	require.NoError(t, err)
	claim, err := h.service.AttemptImport(ctx, domain.SessionID(id))
	require.NoError(t, err)

	uid := claim.SandboxUID
	model, role, owner, at := "known", "clerk", "Explore", time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC)
	session := domain.Session{
		ID: domain.SessionID(
			id,
		),
		OwnerID:      h.owner,
		Intent:       "the whole thing",
		Status:       domain.SessionCompleted,
		Model:        &model,
		BizRoleID:    &role,
		Mode:         domain.ModeExecuting,
		DisableTools: []string{"WebSearch"},
		SandboxUID:   uid,
	}

	write := func(path, content string, mode fs.FileMode) {
		require.NoError(
			t,
			h.carrier.Put(ctx, session, domain.CarriedFile{Path: path, Mode: mode, Size: int64(len(content))}, strings.NewReader(content)),
		)
	}
	write("a.txt", "alpha\n", 0o644)
	write("bin/run.sh", "#!/bin/sh\n", 0o755)
	write("secret", "mode", 0o600)
	write("deep/er/ü 😀.txt", "unicode", 0o644)
	write("zeros.bin", strings.Repeat("\x00", 3<<20), 0o644)
	write("empty", "", 0o644)
	require.NoError(t, h.carrier.Put(ctx, session, domain.CarriedFile{Path: "hollow/dir", Mode: fs.ModeDir | 0o755}, nil))

	for path, target := range map[string]string{"link": "a.txt", "bin/up": "../a.txt", "dangling": "nowhere"} {
		require.NoError(t, h.carrier.Put(ctx, session, domain.CarriedFile{Path: path, Mode: fs.ModeSymlink, Target: target}, nil))
	}

	w, err := h.carrier.Workspaces.Open(ctx, domain.SessionID(id), uid)
	require.NoError(t, err)
	require.NoError(t, w.Symlink("/etc/passwd", "escape"))
	require.NoError(t, w.Symlink("../../x", "bin/escape"))
	require.NoError(t, w.Close())

	contents := map[string]string{"before": "before\n", "more": "more\n"}
	build, err := h.carrier.Build(
		domain.SessionID(id),
		func(name string) (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(contents[name])), nil },
	)
	require.NoError(t, err)

	older := domain.CarriedFile{Path: "a.txt", Mode: 0o644, Size: 7, Identity: "before"}
	first, err := build(ctx, []domain.CarriedFile{older})
	require.NoError(t, err)
	second, err := build(ctx, []domain.CarriedFile{
		older, {Path: "b.txt", Mode: 0o755, Size: 5, Identity: "more"}, {Path: "c", Mode: fs.ModeSymlink, Target: "b.txt"},
	})
	require.NoError(t, err)

	sum := sha256.Sum256(png)
	picture := hex.EncodeToString(sum[:])
	require.NoError(t, h.objects.PutImage(ctx, domain.SessionID(id), picture, "image/png", png))

	root, fork := made[domain.BranchID](), made[domain.BranchID]()
	chat, other := made[domain.ChatID](), made[domain.ChatID]()
	u1, a1, u2, f2, k := made[domain.TurnID](), made[domain.TurnID](), made[domain.TurnID](), made[domain.TurnID](), made[domain.TurnID]()
	call, asked, sub := domain.NewToolCallID(), domain.NewToolCallID(), domain.NewID()
	done := domain.FinishCompleted
	text := func(s string) []domain.Block { return []domain.Block{{Type: domain.BlockText, Content: s}} }
	entries := []domaintransfer.EntryRecord{
		{
			ID:        u1,
			BranchID:  root,
			Sequence:  0,
			ChatID:    chat,
			LoopID:    "root",
			Kind:      "message",
			Role:      "user",
			Status:    "completed",
			StartedAt: at,
			Blocks: []domain.Block{
				{Type: domain.BlockText, Content: "look"},
				{Type: domain.BlockImage, Content: "/api/sessions/" + id + "/attachments/" + picture},
			},
			Parts: []domain.ContentPart{
				{Type: "text", Text: "look"},
				{Type: "image_url", ImageURL: &domain.ImageURL{URL: domain.ObjectScheme + "images/" + id + "/" + picture}},
			},
		},
		{
			ID:       a1,
			BranchID: root,
			Sequence: 1,
			ParentID: &u1,
			ChatID:   chat,
			LoopID:   "root",
			Kind:     "message",
			Role:     "assistant",
			Status:   "completed",
			Step:     1,
			StartedAt: at.Add(
				time.Second,
			),
			DurationMS:     12,
			InputTokens:    5,
			OutputTokens:   7,
			Model:          "known",
			ContextWindow:  1000,
			Blocks:         text("I call a tool"),
			ReasoningField: domain.ReasoningContent,
			ServerMembers:  `{"signature":"turn"}`,
			Calls: []domaintransfer.CallRecord{
				{
					ID:           call,
					ToolName:     "Agent",
					DisplayName:  "Agent",
					Arguments:    `{"prompt":"x"}`,
					Status:       "done",
					Phase:        "finished",
					Result:       "r",
					CreatedAt:    at,
					ServerCallID: "functions.Agent:0", ServerMembers: `{"signature":"call"}`,
					Connections: []domain.Connection{
						{Host: "example.org", Port: 443, Decision: domain.ConnectionAllowed, Count: 2, BytesSent: 3, BytesReceived: 4},
					},
					Images: []domain.CallImage{{Attachment: picture, MimeType: "image/png", Bytes: int64(len(png))}},
				},
				{
					ID:          asked,
					ToolName:    "AskUserQuestion",
					DisplayName: "Question",
					Arguments:   `{}`,
					Status:      "done",
					Phase:       "finished",
					Result:      "yes",
					CreatedAt:   at,
					Question: &domaintransfer.QuestionRecord{
						ID:        domain.NewID(),
						Questions: json.RawMessage(`[{"question":"q"}]`),
						State:     "answered",
						Answer:    json.RawMessage(`{"answers":[]}`),
						AskedAt:   at,
					},
				},
			},
		},
		{
			ID:                   domain.TurnID(sub),
			BranchID:             root,
			Sequence:             2,
			ParentID:             &a1,
			ChatID:               chat,
			LoopID:               call,
			ParentForkToolCallID: &call,
			Kind:                 "message",
			Role:                 "assistant",
			Status:               "failed",
			Step:                 1,
			StartedAt:            at,
			Blocks:               text("sub"),
		},
		{
			ID:        k,
			BranchID:  root,
			Sequence:  3,
			ParentID:  &a1,
			ChatID:    chat,
			LoopID:    "root",
			Kind:      "compaction",
			Role:      "system",
			Status:    "completed",
			StartedAt: at,
			Blocks:    []domain.Block{},
			Compaction: json.RawMessage(
				`{"compaction_id":"` + string(k) + `","summary_full":"short","archived_count":2,"kept_from":1}`,
			),
		},
		{
			ID:         u2,
			BranchID:   root,
			Sequence:   4,
			ParentID:   &k,
			ChatID:     chat,
			LoopID:     "root",
			Kind:       "message",
			Role:       "user",
			Status:     "completed",
			StartedAt:  at,
			Blocks:     text("left behind"),
			Deprecated: true,
		},
		{
			ID:        f2,
			BranchID:  fork,
			Sequence:  3,
			ParentID:  &a1,
			ChatID:    other,
			LoopID:    "root",
			Kind:      "message",
			Role:      "user",
			Status:    "completed",
			StartedAt: at,
			Blocks:    text("another way"),
		},
	}
	snap := func(s string) *string { return &s }

	events := recordings.NewWriter(domain.SessionID(id), h.objects)
	for _, e := range []domain.LoggedEvent{
		{Event: domain.Event{Name: "chat:start", ChatID: chat, At: at, Data: json.RawMessage(`{"mode":"executing"}`)}, Seq: 10},
		{Event: domain.Event{
			Name: "turn:end", ChatID: chat, At: at, Data: json.RawMessage(`{"turn_id":"` + string(a1) + `","status":"completed"}`),
		}, Seq: 11},
	} {
		require.NoError(t, events.Add(ctx, e))
	}

	archived, err := events.Close(ctx)
	require.NoError(t, err)
	require.NoError(t, h.service.FinishImport(ctx, domaintransfer.ImportedSession{
		Session: session, Attempt: claim.Attempt,
		Tree: domaintransfer.SessionTree{
			ActiveBranchID: fork,
			Branches: []domaintransfer.BranchRecord{
				{ID: root, NextSequence: 5, Lineage: []domaintransfer.BranchAncestor{}, Reason: "root", CreatedAt: at},
				{
					ID:             fork,
					ParentBranchID: &root,
					ForkSequence:   3,
					NextSequence:   4,
					Lineage:        []domaintransfer.BranchAncestor{{BranchID: root, UpTo: 3}},
					Reason:         "rewind",
					ForkedFromID:   &a1,
					CreatedAt:      at.Add(time.Minute),
				},
			},
			Chats: []domaintransfer.ChatRecord{
				{
					ID:           chat,
					BranchID:     root,
					Trigger:      "user",
					Mode:         "executing",
					State:        "ended",
					Steps:        1,
					Round:        1,
					FinishReason: &done,
					CreatedAt:    at,
				},
				{
					ID:           other,
					BranchID:     fork,
					Trigger:      "user",
					Mode:         "executing",
					State:        "ended",
					Round:        1,
					FinishReason: &done,
					CreatedAt:    at,
				},
			},
			Checkpoints: []domaintransfer.CheckpointRecord{
				{
					ID:         domain.CheckpointID(domain.NewID()),
					BranchID:   root,
					TurnID:     u1,
					ChatID:     &chat,
					Kind:       "user_turn",
					Label:      "look",
					SnapshotID: snap(first),
					Complete:   true,
					CreatedAt:  at,
				},
				{
					ID:         domain.CheckpointID(domain.NewID()),
					BranchID:   root,
					TurnID:     a1,
					ChatID:     &chat,
					Kind:       "tool_batch",
					Sequence:   1,
					SnapshotID: snap(second),
					Added:      2,
					CreatedAt:  at,
				},
				{
					ID:        domain.CheckpointID(domain.NewID()),
					BranchID:  fork,
					TurnID:    f2,
					ChatID:    &other,
					Kind:      "user_turn",
					Sequence:  3,
					Label:     "no files",
					CreatedAt: at,
				},
			},
		},
		Entries: func(yield func(domaintransfer.EntryRecord) error) error {
			for _, e := range entries {
				if err := yield(e); err != nil {
					return err
				}
			}

			return nil
		},
		Tasks: []domain.SessionTask{
			{ID: "first", Subject: "do it", Status: "in_progress", Owner: &owner, CreatedAt: at, UpdatedAt: at},
			{ID: "second", Subject: "check it", Status: "pending", BlockedBy: []string{"first"}, CreatedAt: at, UpdatedAt: at},
		},
		Extra:  json.RawMessage(`{"task_id":"T"}`),
		Events: archived,
	}))
	_, err = h.db.SetSessionEnv(ctx, domain.User{ID: h.owner}, domain.SessionID(id), map[string]string{"TOKEN": secret})
	require.NoError(t, err)

	return h.session(domain.SessionID(id))
}

func (h *house) session(id domain.SessionID) domain.Session {
	h.t.Helper()
	s, err := h.db.OwnSession(h.t.Context(), domain.User{ID: h.owner}, id)
	require.NoError(h.t, err)

	return s
}

func (h *house) export(s domain.Session) []byte {
	h.t.Helper()
	return h.exportParts(s, domaintransfer.ExportParts{Private: true, Files: true})
}

func (h *house) exportParts(s domain.Session, parts domaintransfer.ExportParts) []byte {
	h.t.Helper()
	x, err := h.service.Export(h.t.Context(), h.owner, s, parts)
	require.NoError(h.t, err)

	var out bytes.Buffer
	require.NoError(h.t, x.Write(h.t.Context(), &out))
	require.NoError(h.t, x.Close())

	return out.Bytes()
}

func made[T ~string]() T { return T(domain.NewID()) }

func (h *house) load(data []byte) (domain.SessionID, domaintransfer.ImportedFrom, error) {
	return h.loadAs(data, domaintransfer.ImportOptions{})
}

func (h *house) loadAs(data []byte, o domaintransfer.ImportOptions) (domain.SessionID, domaintransfer.ImportedFrom, error) {
	up, err := h.service.Upload(h.t.Context(), h.owner, bytes.NewReader(data))
	if err != nil {
		return "", domaintransfer.ImportedFrom{}, err
	}

	return h.service.Import(h.t.Context(), domaintransfer.ImportRequest{OwnerID: h.owner, Upload: up, Options: o})
}

// runs carries out imports at once, and again after an error, as a workflow does.
type runs struct {
	recordings.Runs // starts nothing else
	h               *house
}

func (r runs) StartImport(ctx context.Context, in domaintransfer.Import) error {
	for ctx.Err() == nil && r.h.service.Load(ctx, in.SessionID) != nil {
	}

	return ctx.Err()
}

// shown returns what a session says of itself, with ids numbered in the order in which
// they come: two sessions that say the same are the same.
func (h *house) shown(s domain.Session) string {
	h.t.Helper()
	ctx := h.t.Context()
	numbers := map[string]string{string(s.ID): "SESSION"}
	number := func(id string) {
		if numbers[id] == "" {
			numbers[id] = fmt.Sprintf("ID%d", len(numbers))
		}
	}

	var out strings.Builder

	say := func(v any) {
		row, err := json.Marshal(v)
		require.NoError(h.t, err)
		fmt.Fprintf(&out, "%s\n", row)
	}

	require.NoError(h.t, h.service.Config().Archive.SessionRecords(ctx, s.ID, false, func(tree domaintransfer.SessionTree) error {
		for _, b := range tree.Branches {
			number(string(b.ID))
		}

		for _, c := range tree.Chats {
			number(string(c.ID))
		}

		slices.SortFunc(tree.Checkpoints, func(a, b domaintransfer.CheckpointRecord) int {
			return strings.Compare(string(a.Kind)+a.Label, string(b.Kind)+b.Label)
		})

		for _, k := range tree.Checkpoints {
			number(string(k.ID))
			say(k)

			if k.SnapshotID != nil {
				h.snapshot(*k.SnapshotID, say)
			}
		}

		say(tree)

		return nil
	}, func(e domaintransfer.EntryRecord) error {
		number(string(e.ID))

		for _, c := range e.Calls {
			number(c.ID)

			if c.Question != nil {
				number(c.Question.ID)
			}
		}

		say(e)

		return nil
	}))
	require.NoError(h.t, h.db.Messages(ctx, s.ID, nil, 0, func(t domain.Turn) error { say(t); return nil }))
	require.NoError(h.t, h.service.Config().Archive.Events(ctx, s.ID, func(e domain.LoggedEvent) error {
		var data map[string]any // in the order of its names
		require.NoError(h.t, json.Unmarshal(e.Data, &data))
		say([]any{e.Name, e.ChatID, e.At, data})

		return nil
	}))
	require.NoError(h.t, h.carrier.Walk(ctx, s, func(f domain.CarriedFile) error {
		if strings.HasSuffix(f.Path, "escape") {
			return nil // links that lead outside stay behind
		}

		say([]any{f.Path, f.Mode, f.Target, h.content(f)})

		return nil
	}))
	tasks, err := h.db.SessionTasks(ctx, s.ID)
	require.NoError(h.t, err)

	subjects := map[string]string{}
	for _, task := range tasks {
		subjects[task.ID] = task.Subject
	}

	for _, task := range tasks {
		before := []string{}
		for _, id := range task.BlockedBy {
			before = append(before, subjects[id])
		}

		say([]any{task.Subject, task.Status, task.Description, task.Owner, before})
	}

	extra, err := h.db.ExtraInfo(ctx, s.ID)
	require.NoError(h.t, err)
	say(extra.Extra)
	say([]any{s.Intent, s.Status, s.Model, s.Mode, s.DisableTools, s.Setup})

	text := out.String()
	for id, name := range numbers {
		text = strings.ReplaceAll(text, id, name)
	}

	return text
}

// same compares line by line, so that a difference can be read.
func same(t *testing.T, want, got string) {
	t.Helper()

	was, is := strings.Split(want, "\n"), strings.Split(got, "\n")
	for i := range was {
		require.Less(t, i, len(is), "there is less")
		require.Equal(t, was[i], is[i])
	}

	require.Len(t, is, len(was))
}

func (h *house) content(f domain.CarriedFile) string {
	if f.Open == nil {
		return ""
	}

	r, err := f.Open()
	require.NoError(h.t, err)

	defer r.Close()

	data, err := io.ReadAll(r)
	require.NoError(h.t, err)

	sum := sha256.Sum256(data)

	return fmt.Sprintf("%d %x", len(data), sum)
}

func (h *house) snapshot(id string, say func(any)) {
	found, err := h.carrier.WalkSnapshot(h.t.Context(), id, func(f domain.CarriedFile) error {
		say([]any{f.Path, f.Mode, f.Target, h.content(f)})
		return nil
	})
	require.NoError(h.t, err)
	require.True(h.t, found)
}

// traces is everything that an import could leave behind.
func (h *house) traces() string {
	h.t.Helper()

	var out strings.Builder

	for _, table := range []string{
		"sessions", "branches", "chats", "entries", "tool_calls", "questions", "checkpoints", "session_tasks", "session_extras",
		"event_archives", "imports WHERE state IN ('uploading', 'running')",
	} {
		var n int
		require.NoError(h.t, h.db.Pool.QueryRow(h.t.Context(), `SELECT count(*) FROM `+table).Scan(&n))
		fmt.Fprintf(&out, "%s %d\n", table, n)
	}

	keys, err := h.objects.Keys(h.t.Context(), "")
	require.NoError(h.t, err)

	for _, dir := range []string{"workspace", "spool"} {
		list, err := os.ReadDir(filepath.Join(h.dir, dir))
		require.NoError(h.t, err)

		for _, e := range list {
			fmt.Fprintln(&out, dir, e.Name())
		}
	}

	return out.String() + strings.Join(keys, "\n")
}

// What cannot be read has no time at which its session was made.
func TestService_Preview_ofJunk(t *testing.T) {
	t.Parallel()
	h := newHouse(t)

	preview, err := h.service.Preview(t.Context(), h.owner, strings.NewReader("junk"), 4)
	require.NoError(t, err)
	require.NotEmpty(t, preview.Errors)
	require.Nil(t, preview.Session.CreatedAt)
}

func TestASessionComesBackAsItWas(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	source := h.furnish()
	data := h.export(source)

	preview, err := h.service.Preview(t.Context(), h.owner, bytes.NewReader(data), int64(len(data)))
	require.NoError(t, err)
	require.Empty(t, preview.Errors)
	require.True(t, preview.Compatible)
	require.Equal(t, 1, preview.FormatVersion)
	require.Equal(
		t,
		domaintransfer.ImportSummary{Intent: "the whole thing", Model: "known", CreatedAt: preview.Session.CreatedAt},
		preview.Session,
	)
	require.Equal(t, 6, preview.Counts.Turns)
	require.Equal(t, 6, preview.Counts.Files)
	require.Equal(t, 2, preview.Counts.Branches)
	require.Equal(t, 3, preview.Counts.Checkpoints)
	require.Empty(t, preview.Missing)
	require.Contains(t, strings.Join(preview.Warnings, "\n"), "TOKEN", "which environment has to be set again is named")

	id, from, err := h.load(data)
	require.NoError(t, err)
	require.Equal(t, source.ID, from.SessionID)

	copied := h.session(id)
	same(t, h.shown(source), h.shown(copied))
	require.Empty(t, copied.Env)
	require.NotEqual(t, source.SandboxUID, copied.SandboxUID)
	image, mime, err := h.objects.Image(t.Context(), id, hex.EncodeToString(func() []byte { s := sha256.Sum256(png); return s[:] }()))
	require.NoError(t, err)
	require.Equal(t, "image/png", mime)
	require.Equal(t, png, image)
	require.Contains(t, h.shown(copied), `"images":[{"attachment":"`, "the images of results are compared")

	// A second generation is no different, and it may be another installation.
	again := newHouse(t)
	third, _, err := again.load(h.export(copied))
	require.NoError(t, err)
	same(t, h.shown(source), again.shown(again.session(third)))
	require.NotContains(t, h.shown(copied), source.ID)
	list, err := os.ReadDir(h.service.Config().Spool)
	require.NoError(t, err)
	require.Empty(t, list, "what waited on its way is left")
}

func TestAnArchiveHoldsNoSecretsAndLinksAreListed(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	data := h.export(h.furnish())
	z, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
	require.NoError(t, err)

	var m struct {
		Members []struct{ Name, SHA256 string }
		Links   []struct{ Path, Target string }
		Skipped []struct{ Path, Reason string }
	}

	hashes := map[string]string{}

	for i, f := range z.File {
		require.True(t, f.Mode().IsRegular() || f.Mode().IsDir(), f.Name)
		r, err := f.Open()
		require.NoError(t, err)
		content, err := io.ReadAll(r)
		require.NoError(t, err)
		require.NotContains(t, string(content), secret, f.Name)

		hashes[f.Name] = fmt.Sprintf("%x", sha256.Sum256(content))
		if f.Name == "manifest.json" {
			require.Equal(t, len(z.File)-1, i, "the manifest is written last")
			require.NoError(t, json.Unmarshal(content, &m))
		}
	}

	for _, member := range m.Members {
		require.Equal(t, hashes[member.Name], member.SHA256, member.Name)
	}

	for _, name := range []string{
		"session.json", "turns.jsonl", "events.jsonl", "checkpoints.json", "history.json", "memories.json", "workspace/a.txt",
	} {
		require.Contains(t, hashes, name)
	}

	var links, skipped []string
	for _, l := range m.Links {
		links = append(links, l.Path+">"+l.Target)
	}

	for _, s := range m.Skipped {
		skipped = append(skipped, s.Path)
	}

	slices.Sort(links)
	slices.Sort(skipped)
	require.Equal(t, []string{"bin/up>../a.txt", "dangling>nowhere", "link>a.txt"}, links)
	require.Equal(t, []string{"bin/escape", "escape"}, skipped)
}

func TestANameAndWhatIsMissing(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	source := h.furnish()
	data := h.export(source)
	h.service.Config().Known = func(context.Context, string, string) bool { return false }
	preview, err := h.service.Preview(t.Context(), h.owner, bytes.NewReader(data), int64(len(data)))
	require.NoError(t, err)
	require.Equal(t, []domaintransfer.MissingThing{{Kind: "model", Name: "known"}}, preview.Missing)

	solution := "skill_editor"
	id, _, err := h.loadAs(data, domaintransfer.ImportOptions{Name: "another", SolutionID: &solution})
	require.NoError(t, err)

	got := h.session(id)
	require.Equal(t, "another", got.Intent)
	require.Nil(t, got.Model, "a model that is not there would refuse every message")
	require.Equal(t, &solution, got.SolutionID)
	require.Nil(t, got.BizRoleID, "a role belongs to its solution")
}

func TestAnArchiveGivesNoRole(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	source := h.furnish()
	general := "general"
	source.SolutionID = &general
	data := h.export(source)
	roleOf := func() *string {
		id, _, err := h.loadAs(data, domaintransfer.ImportOptions{})
		require.NoError(t, err)

		return h.session(id).BizRoleID
	}
	clerk := "clerk"
	require.Equal(t, &clerk, roleOf())
	require.NoError(t, accounts.New(h.db.DB).SetAllowedRoles(t.Context(), h.owner, general, []string{"another"}))
	require.Nil(t, roleOf())
	require.NoError(t, accounts.New(h.db.DB).SetAllowedRoles(t.Context(), h.owner, general, []string{"clerk"}))
	require.Equal(t, &clerk, roleOf())
}
