//go:build linux

package history_test

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"everloop/activities/contract"
	"everloop/domain"
	domainhistory "everloop/domain/history"
	"everloop/infra/objects"
	"everloop/infra/postgres"
	"everloop/infra/postgres/pgtest"
	"everloop/infra/snapshots"
	"everloop/infra/toolbox"
	"everloop/infra/workspace"
	"everloop/internal/testkit"
	"everloop/service/accounts"
	"everloop/service/files"
	"everloop/service/history"
)

// eventLog counts published events.
type eventLog struct{ pgtest.Log }

func (l *eventLog) count(name string) (n int) {
	for _, published := range l.Names() {
		if published == name {
			n++
		}
	}

	return n
}

// moves returns how often another active branch was published.
func (l *eventLog) moves() (n int) {
	for _, e := range l.Events() {
		if e.Name == domain.EventSessionUpdated && bytes.Contains(e.Data, []byte(`"history":{`)) {
			n++
		}
	}

	return n
}

// runs stands in for Temporal: it counts the wakes of sessions, and carries out
// moves with the service that is set, retrying as the workflow does. Package worker
// has the tests on a real server.
type runs struct {
	mu      sync.Mutex
	wakes   int
	starts  int
	away    bool // no move is started
	open    map[string]bool
	service *history.Service
}

func (r *runs) Wake(context.Context, domain.SessionRun) error {
	r.mu.Lock()
	defer r.mu.Unlock()

	r.wakes++

	return nil
}

func (r *runs) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()

	return r.wakes
}

func (r *runs) started() int {
	r.mu.Lock()
	defer r.mu.Unlock()

	return r.starts
}

func (r *runs) set(away bool) {
	r.mu.Lock()
	defer r.mu.Unlock()

	r.away = away
}

// startLost starts the moves whose start was lost, as the reconciler does.
func (w *world) startLost() error {
	ops, err := w.service.LostHistory(w.t.Context(), 5*time.Second, "", 100)
	for _, op := range ops {
		err = errors.Join(err, w.runs.StartMove(w.t.Context(), op))
	}

	return err
}

func (r *runs) StartMove(ctx context.Context, op domainhistory.Operation) error {
	r.mu.Lock()
	defer r.mu.Unlock()

	if r.away {
		return errors.New("Temporal is away")
	}

	if r.open[op.ID] {
		return nil
	}

	r.starts++

	r.open[op.ID] = true
	go r.move(context.WithoutCancel(ctx), r.service, op.ID)

	return nil
}

func (r *runs) move(ctx context.Context, service *history.Service, id string) {
	for try := 0; try < 100; try++ {
		if _, err := service.Move(ctx, id); err == nil {
			break
		}

		time.Sleep(10 * time.Millisecond) //nolint:forbidigo // pause between bounded attempts
	}

	r.mu.Lock()
	defer r.mu.Unlock()

	delete(r.open, id)
}

// world is one session on real records and a real object store. Its chats are
// carried out by the test, step by step, as a worker would.
type world struct {
	t       *testing.T
	j       *postgres.Store
	log     *eventLog
	runs    *runs
	store   snapshots.Objects
	service *history.Service
	owner   domain.User
	session domain.Session
	dir     string
	root    string
	wrap    func(history.Files) history.Files // of later processes; nil: as they are

	tool, arguments string // of the calls of steps; empty: Bash
	seenChanges     int    // changes of files that requireChanges has seen
}

func newWorld(t *testing.T) *world {
	t.Helper()
	db := testkit.OpenDatabase(t, postgres.Options{MaxConns: 8})
	w := &world{t: t, log: &eventLog{}, runs: &runs{open: map[string]bool{}}, dir: t.TempDir()}
	w.j = postgres.NewStore(db, w.log, w.logger())
	w.owner = domain.User{ID: domain.NewID(), Username: "owner"}
	_, _, err := accounts.New(db.DB).CreateUser(
		t.Context(),
		w.owner,
		domain.APIKey{ID: domain.NewID(), UserID: w.owner.ID, Name: "k", Masked: "m"},
		make([]byte, 32),
	)
	require.NoError(t, err)
	bucket := testkit.Objects(t)
	store, err := objects.Open(t.Context(), objects.Config{
		Endpoint: bucket.Endpoint, Bucket: bucket.Name, AccessKey: bucket.AccessKey, SecretKey: bucket.SecretKey,
	})
	require.NoError(t, err)

	w.store = store
	w.service = w.process(store)
	w.session, err = db.CreateSession(t.Context(), w.owner.ID, domain.NewSession{})
	require.NoError(t, err)
	w.root, err = w.workspaces().Root(t.Context(), w.session.ID, 0)
	require.NoError(t, err)

	return w
}

// workspaces are those of a process of the service.
func (w *world) workspaces() toolbox.Files {
	store := workspace.New(w.dir)
	store.AdmitWrites(w.j.Free)

	return toolbox.Files{Store: store, OneUser: true}
}

func (w *world) logger() *slog.Logger { return slog.New(slog.NewTextHandler(w.t.Output(), nil)) }

// process makes what one process of the service has.
func (w *world) process(store snapshots.Objects) *history.Service {
	spool := w.t.TempDir()

	var snapshotted history.Files = files.Checkpoints{
		Store: snapshots.New(snapshots.Config{Objects: store, SpoolDir: spool, Logger: w.logger()}),
		Roots: w.workspaces(),
	}
	if w.wrap != nil {
		snapshotted = w.wrap(snapshotted)
	}

	service, err := history.New(history.Config{
		Store: history.NewStore(w.j.DB, w.j.Outbox), Files: snapshotted, Runs: w.runs, Process: domain.NewID(), Logger: w.logger(),
	})
	require.NoError(w.t, err)
	w.t.Cleanup(func() { service.Drain(context.Background()) })
	w.runs.service = service

	return w.runs.service
}

func words(text string) []domain.ContentPart { return []domain.ContentPart{{Type: "text", Text: text}} }

func (w *world) send(text string) domain.SendAck {
	w.t.Helper()

	return w.sendParts(words(text))
}

func (w *world) sendParts(parts []domain.ContentPart) domain.SendAck {
	w.t.Helper()
	out, err := w.j.Enqueue(w.t.Context(), w.owner.ID, domain.Send{
		SessionID: w.session.ID, Message: parts, Delivery: domain.DeliverEnqueue, Trigger: domain.TriggerUser,
	})
	require.NoError(w.t, err)

	return out.Ack
}

func (w *world) begin() domain.ChatID {
	w.t.Helper()
	out, err := w.j.BeginChat(w.t.Context(), contract.BeginChatIn{SessionID: w.session.ID, RunID: domain.NewID()})
	require.NoError(w.t, err)

	return out.ChatID
}

// act is what a step's tool does to the workspace; nil: the step asks for none.
type act func()

// step makes one model call of a chat and runs its tool as the worker would.
func (w *world) step(chat domain.ChatID, n int, text string, do act) (entry string) {
	w.t.Helper()
	ctx := w.t.Context()
	key := domain.TurnKey{SessionID: w.session.ID, ChatID: chat, LoopID: domain.RootLoop, Step: n}
	turn, state, err := w.j.OpenTurn(ctx, key, "mock", 10, "")
	require.NoError(w.t, err)
	require.Equal(w.t, domain.TurnOpened, state)

	if turn.CaptureDue {
		w.service.Changed(w.session.ID)
	}

	closing := domain.ClosingTurn{
		TurnKey: key, EntryID: turn.EntryID, Attempt: turn.Attempt, Status: domain.TurnCompleted, Duration: time.Millisecond,
		Blocks: []domain.Block{{Type: domain.BlockText, Content: text}}, Usage: domain.Usage{InputTokens: int64(10 * n), OutputTokens: 2},
	}
	if do != nil {
		closing.Calls = []domain.PlannedCall{
			{
				ID:          domain.NewToolCallID(),
				ToolName:    cmp.Or(w.tool, "Bash"),
				DisplayName: "Bash",
				Arguments:   cmp.Or(w.arguments, "{}"),
				Acts:        true,
			},
		}
	}

	require.NoError(w.t, w.j.CloseTurn(ctx, closing))

	for _, planned := range closing.Calls {
		call, claimed, err := w.j.ClaimCall(ctx, planned.ID, "")
		require.NoError(w.t, err)
		require.Equal(w.t, domain.CallClaimed, claimed)

		if call.CaptureDue {
			require.NoError(w.t, w.service.Settle(ctx, w.session.ID))
		}

		do()
		require.NoError(w.t, w.j.RecordCall(ctx, call, domain.FinishedCall{
			ID: call.ID, Attempt: call.Attempt, Status: domain.CallDone, Phase: domain.PhaseFinished, Result: "done",
		}))
		w.service.Changed(w.session.ID)
	}

	return string(turn.EntryID)
}

func (w *world) finish(chat domain.ChatID) {
	w.t.Helper()
	_, err := w.j.FinishChat(w.t.Context(), contract.FinishChatIn{ChatID: chat, Reason: domain.FinishCompleted}, nil)
	require.NoError(w.t, err)
}

// chat sends a message and carries out its chat: one step for each act, and a
// last one that only talks.
func (w *world) chat(text string, acts ...act) domain.SendAck {
	w.t.Helper()
	ack := w.send(text)
	w.run(ack.ChatID, acts...)

	return ack
}

func (w *world) run(chat domain.ChatID, acts ...act) {
	w.t.Helper()
	require.Equal(w.t, chat, w.begin())

	for i, do := range acts {
		w.step(chat, i+1, "step", do)
	}

	w.step(chat, len(acts)+1, "done", nil)
	w.finish(chat)
}

func (w *world) writes(path, content string) act {
	return func() { w.write(path, content) }
}

func (w *world) write(path, content string) {
	w.t.Helper()
	full := filepath.Join(w.root, path)
	require.NoError(w.t, os.MkdirAll(filepath.Dir(full), 0o755))
	require.NoError(w.t, os.WriteFile(full, []byte(content), 0o644))
}

// files returns the content of every file of the workspace.
func (w *world) files() map[string]string {
	w.t.Helper()

	found := map[string]string{}

	require.NoError(w.t, filepath.WalkDir(w.root, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}

		data, err := os.ReadFile(path)
		rel, _ := filepath.Rel(w.root, path)
		found[rel] = string(data)

		return err
	}))

	return found
}

// messages gives the text of the turns on the active branch, which are numbered
// without a gap.
func (w *world) messages() (texts []string) {
	w.t.Helper()
	require.NoError(w.t, w.j.Messages(w.t.Context(), w.session.ID, nil, 0, func(turn domain.Turn) error {
		require.EqualValues(w.t, len(texts), turn.Sequence)

		text := ""

		for _, b := range turn.Blocks {
			if b.Type == domain.BlockText || b.Type == domain.BlockSystemNote {
				text += b.Content
			}
		}

		texts = append(texts, text)

		return nil
	}))

	return texts
}

func (w *world) checkpoints() []domainhistory.Checkpoint {
	w.t.Helper()
	list, err := w.service.Checkpoints(w.t.Context(), w.session.ID)
	require.NoError(w.t, err)

	return list
}

// before gives the checkpoint before a turn.
func (w *world) before(turn domain.TurnID) domainhistory.Checkpoint {
	w.t.Helper()

	for _, k := range w.checkpoints() {
		if k.TurnID == turn && k.Kind == domain.CheckpointUserTurn {
			return k
		}
	}

	require.Fail(w.t, "no checkpoint before turn "+string(turn))

	return domainhistory.Checkpoint{}
}

func (w *world) rewind(turn domain.TurnID) domainhistory.Moved {
	w.t.Helper()
	moved, err := w.service.Rewind(w.t.Context(), w.owner, w.session.ID, w.before(turn).ID)
	require.NoError(w.t, err)

	return moved
}
