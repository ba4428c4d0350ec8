package transfer_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"everloop/domain"
	domaintransfer "everloop/domain/transfer"
	"everloop/service/recordings"
	"everloop/service/recordings/transfer"
)

// breaking are files that cannot be written any more after some. away: for a while.
type breaking struct {
	recordings.Files
	left int
	err  error
	away bool
}

func (b *breaking) Put(ctx context.Context, s domain.Session, f domain.CarriedFile, content io.Reader) error {
	if b.left--; b.left < 0 {
		if b.away {
			b.left = 1000
		}

		return b.err
	}

	return b.Files.Put(ctx, s, f, content)
}

func (h *house) upload(data []byte) domaintransfer.ArchiveUpload {
	h.t.Helper()
	up, err := h.service.Upload(h.t.Context(), h.owner, bytes.NewReader(data))
	require.NoError(h.t, err)

	return up
}

func TestImport_faultThatStays_leavesNothing(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	data := h.export(h.furnish())
	before := h.traces()

	whole := h.service.Config().Files
	for left := range 9 {
		h.service.Config().Files = &breaking{Files: whole, left: left, err: errors.New("the disk is broken")}
		_, _, err := h.load(data)
		require.True(t, domain.HasCode(err, domain.CodeInternal), "%v", err)
		require.Equal(t, before, h.traces())
	}
}

// The object store is away in the middle of an import: the next attempt finishes it.
func TestImport_dependencyThatIsAway_isTriedAgain(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	source := h.furnish()
	data := h.export(source)

	whole := h.service.Config().Files
	for left := range 9 {
		h.service.Config().Files = &breaking{
			Files: whole,
			left:  left,
			err:   domain.Unavailablef("the file system", errors.New("away")),
			away:  true,
		}
		id, _, err := h.load(data)
		require.NoError(t, err)
		same(t, h.shown(source), h.shown(h.session(id)))
	}

	keys, err := h.objects.Keys(t.Context(), "imports/")
	require.NoError(t, err)
	require.Empty(t, keys, "the archive is gone with its import")
}

// lostRuns are workflows whose start is lost, when the caller leaves.
type lostRuns struct {
	recordings.Runs // starts nothing else
	leave           func()
}

func (r lostRuns) StartImport(context.Context, domaintransfer.Import) error {
	r.leave()
	return errors.New("lost")
}

// startLost starts the imports whose start was lost, as the reconciler does.
func (h *house) startLost() {
	h.t.Helper()
	lost, err := h.service.LostImports(h.t.Context(), 5*time.Second, "", 100)
	require.NoError(h.t, err)

	for _, in := range lost {
		require.NoError(h.t, h.service.Config().Runs.StartImport(h.t.Context(), in))
	}
}

func TestImport_callerThatLeaves_doesNotEndIt(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	source := h.furnish()
	up := h.upload(h.export(source))
	ctx, cancel := context.WithCancel(t.Context())
	cfg := *h.service.Config()
	cfg.Runs = lostRuns{leave: cancel}
	lost, err := transfer.New(cfg)
	require.NoError(t, err)
	_, _, err = lost.Import(ctx, domaintransfer.ImportRequest{OwnerID: h.owner, Upload: up})
	require.ErrorIs(t, err, context.Canceled)
	_, err = h.db.Pool.Exec(t.Context(), `UPDATE imports SET changed_at = now() - interval '1 minute'`)
	require.NoError(t, err)
	h.startLost()
	same(t, h.shown(source), h.shown(h.session(up.SessionID)))

	for within := 5 * time.Second; ; within *= 4 { // a busy machine may not have taken the archive by then
		ctx, cancel := context.WithTimeout(t.Context(), within)
		_, _, err = lost.Import(ctx, domaintransfer.ImportRequest{OwnerID: h.owner, Upload: h.upload(h.export(source))})

		cancel()

		if domain.HasCode(err, "import_pending") {
			break
		}

		require.Less(t, within, time.Minute, "%v", err)
	}
}

func TestImport_sameKey_joins(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	data := h.export(h.furnish())
	ask := func(data []byte, name string) (domain.SessionID, error) {
		id, _, err := h.service.Import(t.Context(), domaintransfer.ImportRequest{
			OwnerID: h.owner, Upload: h.upload(data), Options: domaintransfer.ImportOptions{Name: name}, Key: "k",
		})

		return id, err
	}
	_, err := ask([]byte("no archive"), "")
	require.True(t, domain.HasCode(err, "not_a_zip"), "%v", err)
	first, err := ask(data, "")
	require.NoError(t, err, "the key of an import that failed is free")

	var left string

	require.Eventually(t, func() bool { // the archive is deleted after the answer
		left = h.traces()
		return !strings.Contains(left, "\nimports/")
	}, time.Minute, 10*time.Millisecond)

	again, err := ask(data, "")
	require.NoError(t, err)
	require.Equal(t, first, again)

	_, err = ask(data, "another")
	require.True(t, domain.HasCode(err, "idempotency_key_reused"), "%v", err)
	require.Equal(t, left, h.traces(), "uploads that are not imported are discarded")
}

// A worker that is killed leaves files and objects; the next one makes the session
// whole, or an operator ends the import.
func TestImport_workerThatDied(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	source := h.furnish()
	data := h.export(source)
	before := h.traces()

	for _, cancelled := range []bool{false, true} {
		up := h.upload(data)
		started, err := h.service.StartImport(t.Context(), domaintransfer.ImportRequest{OwnerID: h.owner, Upload: up}, nil)
		require.NoError(t, err)

		h.refuseRows(func() { require.Error(t, h.service.Load(t.Context(), started)) })
		require.NotEqual(t, before, h.traces(), "it has left something")

		if cancelled {
			require.NoError(t, h.service.Abort(t.Context(), started, "for a test"))
			_, done, err := h.service.ImportResult(t.Context(), started)
			require.True(t, done)
			require.True(t, domain.HasCode(err, "import_cancelled"), "%v", err)
			require.Equal(t, before, h.traces())

			continue
		}

		require.NoError(t, h.service.Load(t.Context(), started))
		same(t, h.shown(source), h.shown(h.session(started)))
		require.NoError(t, h.service.Load(t.Context(), started), "it is over")
		before = h.traces()
	}
}

// refuseRows calls do while the database refuses the rows of imported sessions: an attempt
// ends with all else written, as when its process is killed.
func (h *house) refuseRows(do func()) {
	h.t.Helper()

	for _, statement := range []string{
		`CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'refused'; END $$`,
		`CREATE TRIGGER refuse BEFORE INSERT ON sessions FOR EACH ROW EXECUTE FUNCTION refuse()`,
	} {
		_, err := h.db.Pool.Exec(h.t.Context(), statement)
		require.NoError(h.t, err)
	}

	do()

	_, err := h.db.Pool.Exec(h.t.Context(), `DROP FUNCTION refuse() CASCADE`)
	require.NoError(h.t, err)
}

func TestImport_attemptThatIsNotTheLatest_isFenced(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	up := h.upload(h.export(h.furnish()))
	_, err := h.service.StartImport(t.Context(), domaintransfer.ImportRequest{OwnerID: h.owner, Upload: up}, nil)
	require.NoError(t, err)
	first, err := h.service.AttemptImport(t.Context(), up.SessionID)
	require.NoError(t, err)
	require.NoError(t, h.service.CheckImport(t.Context(), first))
	_, err = h.service.AttemptImport(t.Context(), up.SessionID)
	require.NoError(t, err)
	require.ErrorIs(t, h.service.CheckImport(t.Context(), first), domain.ErrFenced)
	require.ErrorIs(t, h.service.FinishImport(t.Context(), domaintransfer.ImportedSession{
		Session: domain.Session{ID: up.SessionID}, Attempt: first.Attempt,
	}), domain.ErrFenced)
	require.ErrorIs(t, h.service.FailImport(t.Context(), first, domain.ErrFenced), domain.ErrFenced)
}

// An API process that is killed leaves an upload, which the periodic job removes, and its
// row later.
func TestUpload_abandoned_isRemoved(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	data := h.export(h.furnish())
	before := h.traces()
	up := h.upload(data)
	require.NoError(t, h.service.Repair(t.Context()))
	require.NotEqual(t, before, h.traces(), "it may still be under way")

	age := func(age string) {
		_, err := h.db.Pool.Exec(t.Context(), `UPDATE imports SET changed_at = now() - $1::interval`, age)
		require.NoError(t, err)
	}
	age("6 minutes")
	require.NoError(t, h.service.Repair(t.Context()))
	require.Equal(t, before, h.traces())
	require.True(t, domain.HasCode(h.service.AddUploadPart(t.Context(), up.SessionID, 1), "import_lost"))
	_, _, err := h.service.Import(t.Context(), domaintransfer.ImportRequest{OwnerID: h.owner, Upload: up})
	require.True(t, domain.HasCode(err, "import_lost"), "%v", err)

	rows := func() (n int) {
		require.NoError(t, h.db.Pool.QueryRow(t.Context(), `SELECT count(*) FROM imports`).Scan(&n))
		return n
	}

	require.NoError(t, h.service.Repair(t.Context()))
	require.Equal(t, 2, rows())
	age("25 hours")
	require.NoError(t, h.service.Repair(t.Context()))
	require.Zero(t, rows())
}

// stuckObjects are objects some of which cannot be deleted.
type stuckObjects struct {
	recordings.Objects
	below string
}

func (o stuckObjects) DeletePrefix(_ context.Context, prefix string) error {
	if prefix < o.below {
		return errors.New("the object store refuses")
	}

	return nil
}

// Ended imports that cannot be removed keep no other from it.
func TestRepair_removesAllEndedImports(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	_, err := h.db.Pool.Exec(t.Context(), `
		INSERT INTO imports (session_id, owner_id, state, changed_at)
		SELECT 'i' || lpad(n::text, 3, '0'), 'o', 'done', now() - interval '25 hours' + n * interval '1 second'
		FROM   generate_series(0, 249) n`)
	require.NoError(t, err)

	h.service.Config().Objects = stuckObjects{h.objects, "imports/i120"}
	require.ErrorContains(t, h.service.Repair(t.Context()), "refuses")

	var left int
	require.NoError(t, h.db.Pool.QueryRow(t.Context(), `SELECT count(*) FROM imports`).Scan(&left))
	require.Equal(t, 120, left)
}

// cut is a body whose client goes away.
type cut struct{ io.Reader }

func (c cut) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}

	return n, err
}

func TestUpload_clientThatLeaves_leavesNothing(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	data := bytes.Repeat([]byte("x"), 20<<20)
	before := h.traces()
	_, err := h.service.Upload(t.Context(), h.owner, cut{bytes.NewReader(data)})
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	require.Equal(t, before, h.traces())
	up := h.upload(data)
	keys, err := h.objects.Keys(t.Context(), "imports/"+string(up.SessionID)+"/")
	require.NoError(t, err)
	require.Len(t, keys, 3, "parts of 8 MiB")
	require.EqualValues(t, len(data), up.Size)
	discarded, err := h.service.Discard(t.Context(), up)
	require.NoError(t, err)
	require.True(t, discarded)
	require.Equal(t, before, h.traces())
}

func TestUpload_tooManyOfOneUser_isRefused(t *testing.T) {
	t.Parallel()
	h := newHouse(t)

	var first domaintransfer.ArchiveUpload

	for n := range 4 {
		if up := h.upload([]byte("x")); n == 0 {
			first = up
		}
	}

	_, err := h.service.Upload(t.Context(), h.owner, bytes.NewReader([]byte("x")))
	require.True(t, domain.HasCode(err, "too_many_imports"), "%v", err)
	require.Equal(t, domain.RateLimited, domain.AsError(err).Kind)
	require.Positive(t, domain.AsError(err).RetryAfter)
	_, err = h.service.Discard(t.Context(), first)
	require.NoError(t, err)
	h.upload([]byte("x"))

	// Those that send at the same time are counted by their process.
	other := newHouse(t)

	slow, feed := io.Pipe()
	defer feed.Close()

	for range 4 {
		go func() { // again when the look below had its place
			for domain.HasCode(preview(t.Context(), other, held{slow}), "too_many_imports") {
				runtime.Gosched()
			}
		}()
	}

	require.Eventually(t, func() bool { // one that is admitted waits for those that read, so it has an end
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()

		return domain.HasCode(preview(ctx, other, bytes.NewReader([]byte("x"))), "too_many_imports")
	}, time.Minute, time.Millisecond)
}

func preview(ctx context.Context, h *house, archive io.ReaderAt) error {
	_, err := h.service.Preview(ctx, h.owner, archive, 10)
	return err
}

// held is an archive that cannot be read yet.
type held struct{ r io.Reader }

func (h held) ReadAt(p []byte, _ int64) (int, error) { return h.r.Read(p) }

// The start of an import is stored, and its answer is lost with the connection.
func TestImport_startStoredButNotAnswered(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	up := h.upload(h.export(h.furnish()))
	h.service.LoseStartAnswer()

	id, _, err := h.service.Import(t.Context(), domaintransfer.ImportRequest{OwnerID: h.owner, Upload: up})
	require.NoError(t, err)
	require.Equal(t, up.SessionID, id)
	require.Equal(t, id, h.session(id).ID)

	discarded, err := h.service.Discard(t.Context(), up)
	require.NoError(t, err)
	require.False(t, discarded, "it is imported")
}

func TestExport_tooMany(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	session := h.furnish()
	export := func(caller string) (*transfer.Export, error) {
		return h.service.Export(t.Context(), caller, session, domaintransfer.ExportParts{})
	}

	var open []*transfer.Export

	for _, caller := range []string{"a", "a", "b", "b"} {
		x, err := export(caller)
		require.NoError(t, err)

		open = append(open, x)
	}

	_, err := export("c")
	require.True(t, domain.HasCode(err, "too_many_exports"), "%v", err)
	require.Positive(t, domain.AsError(err).RetryAfter)
	require.NoError(t, open[0].Close())

	last, err := export("a")
	require.NoError(t, err)
	require.NoError(t, open[2].Close())

	_, err = export("a")
	require.True(t, domain.HasCode(err, "too_many_exports"), "one user has at most two: %v", err)

	for _, x := range append(open[1:2], open[3], last) {
		require.NoError(t, x.Close())
	}
}

// A reader that is slow holds no connection of the database.
func TestSessionRecords_slowReader(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	session := h.furnish()
	entries := 0
	err := h.service.Config().Archive.SessionRecords(t.Context(), session.ID, false, func(domaintransfer.SessionTree) error { return nil },
		func(domaintransfer.EntryRecord) error {
			entries++

			require.Zero(t, h.db.Pool.Stat().AcquiredConns())

			return nil
		})
	require.NoError(t, err)
	require.Positive(t, entries)
}
