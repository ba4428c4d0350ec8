package transfer

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path"
	"slices"
	"time"

	"everloop/domain"
	"everloop/domain/transfer"
	"everloop/infra/postgres/sessions"
	"everloop/service/recordings"
)

// Config is what New needs; all but WorkspaceBytes and Room is required.
type Config struct {
	recordings.Deps
	Archive *recordings.Service // reads the events and records of sessions

	// Known reports whether this installation has a model, a skill or a solution.
	Known func(ctx context.Context, kind, name string) bool
	// Roles returns the roles of a solution that a user may take.
	Roles func(ctx context.Context, userID, solutionID string) (domain.AllowedRoles, error)
	// Memories returns the memories that a session of a user made.
	Memories func(ctx context.Context, userID string, sessionID domain.SessionID) ([]domain.Memory, error)

	Version        string       // of the service
	Spool          string       // a directory of the service alone, for temporary files
	WorkspaceBytes int64        // the limit of a workspace; 0: none
	Room           func() error // fails while the disk of Spool is full; nil: never
}

// Service exports and imports sessions.
type Service struct {
	*Store
	cfg      Config
	sessions *sessions.Base

	uploads limiter
	exports limiter
	reading limiter // archives that are checked or imported

	// startImport is Store.StartImport; a test replaces it.
	startImport func(ctx context.Context, in transfer.ImportRequest, sum []byte) (domain.SessionID, error)
	endedUpTo   string // where removeEnded was interrupted
}

// New returns a new service. It fails when the configuration is incomplete.
func New(cfg Config) (*Service, error) {
	if err := cfg.Check(); err != nil {
		return nil, err
	}

	if cfg.Archive == nil || cfg.Known == nil || cfg.Roles == nil || cfg.Memories == nil || cfg.Version == "" || cfg.Spool == "" {
		return nil, errors.New("transfer: the configuration needs Archive, Known, Roles, Memories, Version and Spool")
	}

	store := NewStore(cfg.DB)

	return &Service{
		Store: store, cfg: cfg, sessions: sessions.NewBase(cfg.DB), startImport: store.StartImport,
	}, nil
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

		return x.service.cfg.Archive.SessionRecords(ctx, x.session.ID, false, frame, func(e transfer.EntryRecord) error {
			x.m.Counts.Turns++
			return encode(w, e)
		})
	})
}

func (x *Export) events(ctx context.Context) error {
	return x.lines(eventsFile, func(w io.Writer) error {
		return x.service.cfg.Archive.Events(ctx, x.session.ID, func(e domain.LoggedEvent) error {
			x.m.Counts.Events++
			return recordings.AppendLine(w, e)
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
	if body.Tasks, err = x.service.sessions.SessionTasks(ctx, s.ID); err != nil {
		return err
	}

	extra, err := x.service.sessions.ExtraInfo(ctx, s.ID)
	if err != nil {
		return err
	}

	body.Extra = extra.Extra
	memories := []domain.Memory{}

	if x.parts.Private {
		found, err := x.service.cfg.Memories(ctx, s.OwnerID, s.ID)
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
