package transfer

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"os"
	"path"
	"slices"
	"time"

	"everloop/domain"
	"everloop/domain/transfer"
	"everloop/service/eventarchive"
)

// Store keeps sessions.
type Store interface {
	SessionRecords(ctx context.Context, sessionID domain.SessionID, activeOnly bool,
		frame func(transfer.SessionTree) error, entry func(transfer.EntryRecord) error) error
	SessionTasks(ctx context.Context, sessionID domain.SessionID) ([]domain.SessionTask, error)
	ExtraInfo(ctx context.Context, sessionID domain.SessionID) (domain.ExtraInfo, error)
	SessionMemories(ctx context.Context, ownerID string, sessionID domain.SessionID) ([]domain.Memory, error)

	AllowedRoles(ctx context.Context, userID, solutionID string) (domain.AllowedRoles, error)
	Imports
}

// Imports keep how far imports are. Every write of an attempt that is not the latest
// one fails with domain.ErrFenced.
type Imports interface {
	BeginUpload(ctx context.Context, sessionID domain.SessionID, ownerID string, most int) (begun bool, err error)
	AddUploadPart(ctx context.Context, sessionID domain.SessionID, size int64) error
	DropUpload(ctx context.Context, sessionID domain.SessionID) (dropped bool, err error)
	AbandonUploads(ctx context.Context, age time.Duration) ([]string, error)

	StartImport(ctx context.Context, in transfer.ImportRequest, sum []byte) (sessionID domain.SessionID, err error)
	AttemptImport(ctx context.Context, sessionID domain.SessionID) (transfer.Import, error)
	CheckImport(ctx context.Context, in transfer.Import) error
	FinishImport(ctx context.Context, in transfer.ImportedSession) error
	FailImport(ctx context.Context, in transfer.Import, cause *domain.Error) error
	ImportResult(ctx context.Context, sessionID domain.SessionID) (from transfer.ImportedFrom, done bool, err error)
	EndedImports(ctx context.Context, age time.Duration, after string) ([]transfer.Import, error)
	ForgetImport(ctx context.Context, sessionID domain.SessionID) error
}

// Runs starts the workflows of imports.
type Runs interface {
	// StartImport does nothing when the workflow of the import is open.
	StartImport(ctx context.Context, in transfer.Import) error
}

// Events are what is left of the events of sessions.
type Events interface {
	Events(ctx context.Context, sessionID domain.SessionID, yield func(domain.LoggedEvent) error) error
}

// Objects keep pictures, and events that are archived.
type Objects interface {
	Keys(ctx context.Context, prefix string) ([]string, error)
	Image(ctx context.Context, sessionID domain.SessionID, name string) (data []byte, mime string, err error)
	PutImage(ctx context.Context, sessionID domain.SessionID, name, mime string, data []byte) error
	Put(ctx context.Context, key string, data []byte) error
	Get(ctx context.Context, key string) ([]byte, error)
	DeletePrefix(ctx context.Context, prefix string) error
}

// Files are the files of sessions, now and at checkpoints.
type Files interface {
	Walk(ctx context.Context, session domain.Session, visit func(domain.CarriedFile) error) error
	WalkSnapshot(ctx context.Context, snapshotID string, visit func(domain.CarriedFile) error) (found bool, err error)
	// Fits fails when the session's workspace has no room for so many files.
	Fits(ctx context.Context, session domain.Session, bytes int64, files int) error
	Put(ctx context.Context, session domain.Session, file domain.CarriedFile, content io.Reader) error
	// Build makes snapshots of a session of contents that open gives by their names,
	// which are the identities of the files.
	Build(sessionID domain.SessionID, open func(content string) (io.ReadCloser, error)) (
		snapshot func(ctx context.Context, files []domain.CarriedFile) (id string, err error), err error)
	Remove(ctx context.Context, sessionID domain.SessionID) error
}

// Known says whether this installation has what a session names: a model, a
// skill or a solution.
type Known func(ctx context.Context, kind, name string) bool

// Config is what New needs.
type Config struct {
	Store   Store
	Events  Events
	Objects Objects
	Files   Files
	Runs    Runs
	Known   Known
	Logger  *slog.Logger
	Version string // of the service
	Spool   string // a directory of the service alone, for what waits on its way
	// WorkspaceBytes is how much a workspace may hold; 0: no limit.
	WorkspaceBytes int64
	// Room fails while there is no room on the disk of Spool; nil: there is always.
	Room func() error
}

// Service exports and imports sessions.
type Service struct {
	cfg Config

	uploads limiter
	exports limiter
	reading turns

	endedUpTo string // where removeEnded was interrupted
}

// New checks the configuration.
func New(cfg Config) (*Service, error) {
	if cfg.Store == nil || cfg.Events == nil || cfg.Objects == nil || cfg.Files == nil || cfg.Runs == nil || cfg.Known == nil ||
		cfg.Logger == nil ||
		cfg.Version == "" ||
		cfg.Spool == "" {
		return nil, errors.New("transfer: the configuration needs Records, Events, Objects, Files, Runs, Known, Logger, Version and Spool")
	}

	return &Service{cfg: cfg}, nil
}

// Export is an archive that is ready to be written.
type Export struct {
	service *Service
	leave   func() // frees the slot
	session domain.Session
	spool   *spool // with the members that are not files of the workspace
	tree    transfer.SessionTree
	m       manifest
	parts   transfer.ExportParts
	blobs   map[string]string // identity of a content: its hash
	kept    map[string]bool   // hashes of contents that are in the archive
}

// Export reads the records of a session, so that what cannot be read is reported
// before anything is written. It fails with too_many_exports while callerID, or all users,
// have the maximum of them open. Close frees it.
func (d *Service) Export(ctx context.Context, callerID string, session domain.Session, parts transfer.ExportParts) (*Export, error) {
	leave, ok := d.exports.enter(callerID, maxExports, maxOwnExports)
	if !ok {
		return nil, tooManyExports()
	}

	spool, err := d.spool()
	if err != nil {
		leave()
		return nil, err
	}

	x := &Export{
		service: d, leave: leave, session: session, spool: spool, parts: parts, blobs: map[string]string{}, kept: map[string]bool{},
	}

	x.m = manifest{
		FormatVersion: FormatVersion, ServiceVersion: d.cfg.Version, ExportedAt: time.Now().UTC(),
		Session: summary{session.ID, session.Intent, session.Model, session.CreatedAt},
		Members: []member{}, Links: []link{}, Skipped: []skipped{}, Redactions: redactions,
	}
	if !parts.Files {
		x.m.Redactions = append(slices.Clone(redactions), "files")
	}

	if err := errors.Join(x.conversation(ctx), x.events(ctx), x.about(ctx)); err != nil {
		return nil, errors.Join(err, x.Close())
	}

	return x, nil
}

// Close removes what was kept for the export, and frees its slot.
func (x *Export) Close() error {
	defer x.leave()
	return x.spool.close()
}

func (x *Export) file(name string) string { return x.spool.file(name) }

// lines writes a member line by line.
func (x *Export) lines(name string, fill func(io.Writer) error) error {
	f, err := os.Create(x.file(name))
	if err != nil {
		return err
	}
	defer f.Close()

	w := bufio.NewWriter(f)

	return errors.Join(fill(w), w.Flush())
}

func (x *Export) json(name string, value any) error {
	return x.lines(name, func(w io.Writer) error { return encode(w, value) })
}

func encode(w io.Writer, value any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)

	return e.Encode(value)
}

func (x *Export) conversation(ctx context.Context) error {
	return x.lines(turnsFile, func(w io.Writer) error {
		frame := func(tree transfer.SessionTree) error {
			x.tree = tree
			x.m.Counts.Branches = len(tree.Branches)
			x.m.Counts.Checkpoints = len(tree.Checkpoints)

			return x.json(historyFile, tree)
		}

		return x.service.cfg.Store.SessionRecords(ctx, x.session.ID, false, frame, func(e transfer.EntryRecord) error {
			x.m.Counts.Turns++
			return encode(w, e)
		})
	})
}

func (x *Export) events(ctx context.Context) error {
	return x.lines(eventsFile, func(w io.Writer) error {
		return x.service.cfg.Events.Events(ctx, x.session.ID, func(e domain.LoggedEvent) error {
			x.m.Counts.Events++
			return eventarchive.AppendLine(w, e)
		})
	})
}

// about writes what is known of the session itself.
func (x *Export) about(ctx context.Context) error {
	s := x.session

	body := sessionBody{
		ID:              s.ID,
		Intent:          s.Intent,
		Status:          s.Status,
		SolutionID:      s.SolutionID,
		BizRoleID:       s.BizRoleID,
		TemplateID:      s.TemplateID,
		PrimarySkillID:  s.PrimarySkillID,
		Model:           s.Model,
		SoftwareFactory: s.SoftwareFactory,
		Mode:            s.Mode,
		MemoryEnabled:   s.MemoryEnabled,
		Persistent:      s.Persistent,
		EnvNames:        []string{},
		DisableTools:    s.DisableTools,
		Setup:           s.Setup,
		CreatedAt:       s.CreatedAt,
		UpdatedAt:       s.UpdatedAt,
	}
	if x.parts.Private {
		for name := range s.Env {
			body.EnvNames = append(body.EnvNames, name)
		}

		slices.Sort(body.EnvNames)
	}

	var err error
	if body.Tasks, err = x.service.cfg.Store.SessionTasks(ctx, s.ID); err != nil {
		return err
	}

	extra, err := x.service.cfg.Store.ExtraInfo(ctx, s.ID)
	if err != nil {
		return err
	}

	body.Extra = extra.Extra
	memories := []domain.Memory{}

	if x.parts.Private {
		found, err := x.service.cfg.Store.SessionMemories(ctx, s.OwnerID, s.ID)
		if err != nil {
			return err
		}

		memories = append(memories, found...)
	}

	return errors.Join(x.json(sessionFile, body), x.json(memoriesFile, memories))
}

// Write writes the archive. An error leaves it without an end, so that no reader
// takes it for a whole one.
func (x *Export) Write(ctx context.Context, w io.Writer) error {
	z := newZipper(w)
	defer z.close()

	for _, name := range []string{sessionFile, historyFile, turnsFile, eventsFile, memoriesFile} {
		info, err := os.Stat(x.file(name))
		if err != nil {
			return err
		}

		open := func() (io.ReadCloser, error) { return os.Open(x.file(name)) }
		if err := x.add(ctx, z, member{Name: name, Size: info.Size()}, open); err != nil {
			return err
		}
	}

	for _, part := range []func(context.Context, *zipper) error{x.pictures, x.workspace, x.snapshots} {
		if err := part(ctx, z); err != nil {
			return err
		}
	}

	data, err := json.MarshalIndent(x.m, "", " ")
	if err != nil {
		return err
	}

	if _, err := z.add(ctx, manifestFile, 0o644, int64(len(data)), inMemory(data)); err != nil {
		return err
	}

	return z.finish()
}

func inMemory(data []byte) func() (io.ReadCloser, error) {
	return func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(data)), nil }
}

// add writes a member and lists it with its hash.
func (x *Export) add(ctx context.Context, z *zipper, m member, open func() (io.ReadCloser, error)) error {
	done, err := z.add(ctx, m.Name, m.Mode, m.Size, open)
	if err != nil {
		return err
	}

	m.Size, m.SHA256 = done.size, done.sum
	x.m.Members = append(x.m.Members, m)

	return nil
}

func (x *Export) pictures(ctx context.Context, z *zipper) error {
	keys, err := x.service.cfg.Objects.Keys(ctx, "images/"+string(x.session.ID)+"/")
	if err != nil {
		return err
	}

	for _, key := range keys {
		name := path.Base(key)

		data, _, err := x.service.cfg.Objects.Image(ctx, x.session.ID, name)
		if err != nil {
			return err
		}

		if err := x.add(ctx, z, member{Name: attachmentsDir + name, Size: int64(len(data))}, inMemory(data)); err != nil {
			return err
		}
	}

	return nil
}
