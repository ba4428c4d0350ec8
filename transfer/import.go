package transfer

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"os"
	"strings"
	"time"

	"everloop/archive"
	"everloop/domain"
)

// Preview checks an archive as an import would, and tells what is in it. An
// archive that an import would refuse is told as not compatible, with the reason.
func (d *Desk) Preview(ctx context.Context, r io.ReaderAt, size int64) (domain.ImportPreview, error) {
	out := domain.ImportPreview{Missing: []domain.MissingThing{}, Warnings: []string{}, Errors: []string{}}
	p, err := open(ctx, r, size)
	if err != nil {
		if kind := domain.AsError(err).Kind; kind != domain.Invalid && kind != domain.TooLarge {
			return out, err
		}
		out.Errors = append(out.Errors, domain.AsError(err).Message)
		return out, nil
	}
	out.FormatVersion, out.Compatible = p.m.FormatVersion, true
	out.Session = domain.ImportSummary{Intent: p.session.Intent, CreatedAt: later(p.session.CreatedAt)}
	if p.session.Model != nil {
		out.Session.Model = *p.session.Model
	}
	out.Counts = p.counts()
	out.Missing = d.missing(ctx, p)
	if len(p.session.EnvNames) > 0 {
		out.Warnings = append(out.Warnings, "the environment has to be set again: "+strings.Join(p.session.EnvNames[:min(len(p.session.EnvNames), 50)], ", "))
	}
	out.Warnings = append(out.Warnings, leftBehind(p.session.Setup)...)
	if p.unfinished() {
		out.Warnings = append(out.Warnings, "the session was running when it was exported; its open chat is imported as interrupted")
	}
	if n := len(p.m.Skipped); n > 0 {
		out.Warnings = append(out.Warnings, "some files were not exported; the manifest names them")
	}
	return out, nil
}

func (p *pack) counts() domain.ImportCounts {
	c := domain.ImportCounts{Turns: p.turns, Checkpoints: len(p.points.Checkpoints), Branches: len(p.tree.Branches)}
	for name, m := range p.listed {
		if strings.HasPrefix(name, workspaceDir) {
			c.Files++
			c.Bytes += m.Size
		}
	}
	return c
}

func (p *pack) unfinished() bool {
	for _, c := range p.tree.Chats {
		if c.State == "running" || c.State == "queued" {
			return true
		}
	}
	return false
}

// missing lists what the session names and this installation does not have.
func (d *Desk) missing(ctx context.Context, p *pack) []domain.MissingThing {
	out := []domain.MissingThing{}
	for _, thing := range []struct {
		kind string
		name *string
	}{{"model", p.session.Model}, {"solution", p.session.SolutionID}, {"skill", p.session.PrimarySkillID}} {
		if thing.name != nil && *thing.name != "" && d.Known != nil && !d.Known(ctx, thing.kind, *thing.name) {
			out = append(out, domain.MissingThing{Kind: thing.kind, Name: *thing.name})
		}
	}
	return out
}

// keepEvery is how often an import that is under way says so.
const keepEvery = 10 * time.Second

// Import makes a session of the owner's from an archive. Everything in it gets
// ids of its own. An archive that is refused, and an import that breaks off,
// leave nothing behind.
func (d *Desk) Import(ctx context.Context, ownerID string, r io.ReaderAt, size int64, o domain.ImportOptions) (string, domain.ImportedFrom, error) {
	p, err := open(ctx, r, size)
	if err != nil {
		return "", domain.ImportedFrom{}, err
	}
	from := domain.ImportedFrom{
		SessionID: p.session.ID, Intent: p.session.Intent, ExportedAt: later(p.m.ExportedAt),
		ServiceVersion: shorten(p.m.ServiceVersion), FormatVersion: p.m.FormatVersion,
	}
	id := domain.NewID()
	uid, err := d.Records.BeginImport(ctx, id, ownerID)
	if err != nil {
		return "", from, err
	}
	im := &importing{desk: d, pack: p, session: p.newSession(id, ownerID, uid, o), names: p.names(id)}
	for _, thing := range d.missing(ctx, p) { // it would only be in the way
		switch {
		case thing.Kind == "model":
			im.session.Model = nil
		case thing.Kind == "solution" && o.SolutionID == nil:
			im.session.SolutionID = nil
		case thing.Kind == "skill":
			im.session.PrimarySkillID = nil
		}
	}
	if err := d.alive(ctx, id, im.run); err != nil {
		clean, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
		defer cancel()
		return "", from, errors.Join(err, d.clear(clean, id))
	}
	return id, from, nil
}

// alive runs an import and says meanwhile that it is under way.
func (d *Desk) alive(ctx context.Context, id string, run func(context.Context) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	done := make(chan struct{})
	defer func() { <-done }()
	stop := make(chan struct{})
	defer close(stop)
	go func() {
		defer close(done)
		tick := time.NewTicker(keepEvery)
		defer tick.Stop()
		for {
			select {
			case <-stop:
				return
			case <-tick.C:
				if err := d.Records.KeepImport(ctx, id); err != nil && domain.AsError(err).Kind == domain.Conflict {
					cancel(err) // it was taken for dead, and cleared away
					return
				}
			}
		}
	}()
	if err := run(ctx); err != nil {
		if cause := context.Cause(ctx); cause != nil && errors.Is(err, context.Canceled) {
			return cause
		}
		return err
	}
	return nil
}

// clear takes away what an import wrote that came to nothing.
func (d *Desk) clear(ctx context.Context, id string) error {
	err := d.Files.Remove(ctx, id)
	for _, prefix := range []string{"images/" + id + "/", archive.Prefix(id), "snapshots/" + id + "/"} {
		err = errors.Join(err, d.Objects.DeletePrefix(ctx, prefix))
	}
	if err != nil {
		return err // the row stays, and with it the work for the sweep
	}
	return d.Records.DropImport(ctx, id)
}

// staleAge is after how long without a sign of life an import is taken for dead.
const staleAge = 2 * time.Minute

// Sweep clears away imports whose process has died, and what exports and imports
// that were killed on this machine left on its disk.
func (d *Desk) Sweep(ctx context.Context) error {
	stale, err := d.Records.StaleImports(ctx, staleAge)
	err = errors.Join(err, d.sweepSpool())
	for _, id := range stale {
		err = errors.Join(err, d.clear(ctx, id))
	}
	return err
}

// importing is one import under way.
type importing struct {
	desk    *Desk
	pack    *pack
	session domain.Session
	names   archive.Names
}

// run writes outside of the records first, so that the session is whole when its
// rows appear.
func (im *importing) run(ctx context.Context) error {
	if err := im.role(ctx); err != nil {
		return err
	}
	if err := im.pictures(ctx); err != nil {
		return err
	}
	if err := im.workspace(ctx); err != nil {
		return err
	}
	snapshots, err := im.snapshots(ctx)
	if err != nil {
		return err
	}
	events, err := im.events(ctx)
	if err != nil {
		return err
	}
	return im.desk.Records.FinishImport(ctx, domain.ImportedSession{
		Session: im.session, Tree: im.tree(snapshots), Entries: im.entries, Tasks: im.pack.session.Tasks, Extra: im.pack.session.Extra, Events: events,
	})
}

// role leaves out a role that the new owner may not take: whatever an archive says,
// it gives nobody a right.
func (im *importing) role(ctx context.Context) error {
	s := &im.session
	if s.SolutionID == nil || s.BizRoleID == nil {
		return nil
	}
	allowed, err := im.desk.Records.AllowedRoles(ctx, s.OwnerID, *s.SolutionID)
	if err == nil && !allowed.Allows(*s.BizRoleID) {
		s.BizRoleID = nil
	}
	return err
}

func (im *importing) pictures(ctx context.Context) error {
	for name, f := range im.pack.files {
		picture, ours := strings.CutPrefix(name, attachmentsDir)
		if !ours {
			continue
		}
		data, err := f.ReadAll(maxBody)
		if err != nil {
			return refusal(err)
		}
		mime := http.DetectContentType(data)
		if !strings.HasPrefix(mime, "image/") {
			return badf("%q is no picture", shorten(name))
		}
		if err := im.desk.Objects.PutImage(ctx, im.session.ID, picture, mime, data); err != nil {
			return err
		}
	}
	return nil
}

func (im *importing) workspace(ctx context.Context) error {
	for _, dir := range im.pack.dirs {
		if err := im.put(ctx, domain.CarriedFile{Path: dir, Mode: fs.ModeDir | 0o755}, nil); err != nil {
			return err
		}
	}
	for name, f := range im.pack.files {
		rel, ours := strings.CutPrefix(name, workspaceDir)
		if !ours {
			continue
		}
		mode := fs.FileMode(im.pack.listed[name].Mode & 0o777)
		if mode == 0 {
			mode = f.Mode
		}
		content, err := f.Open()
		if err != nil {
			return refusal(err)
		}
		err = im.put(ctx, domain.CarriedFile{Path: rel, Mode: mode, Size: f.Size}, content)
		_ = content.Close()
		if err != nil {
			return refusal(err)
		}
	}
	for _, l := range im.pack.m.Links {
		if err := im.put(ctx, domain.CarriedFile{Path: l.Path, Mode: fs.ModeSymlink, Target: l.Target}, nil); err != nil {
			return err
		}
	}
	return nil
}

func (im *importing) put(ctx context.Context, f domain.CarriedFile, content io.Reader) error {
	return im.desk.Files.Put(ctx, im.session, f, content)
}

// events keeps what happened in the session as the archive that a replay reads.
func (im *importing) events(ctx context.Context) (*domain.EventArchive, error) {
	if im.pack.events == 0 {
		return nil, nil
	}
	var list []domain.LoggedEvent
	err := im.pack.eachEvent(func(e domain.LoggedEvent) error {
		data, err := im.names.Data(e.Data)
		if err != nil {
			return badf("%s: an event cannot be read", eventsFile)
		}
		e.Data, e.ID, e.At = data, "", later(e.At)
		if chat, known := im.names.IDs[e.ChatID]; known {
			e.ChatID = chat
		} else if e.ChatID != "" {
			return nil // of a chat that the session does not have any more
		}
		e.Seq = uint64(len(list) + 1)
		list = append(list, e)
		return nil
	})
	if err != nil || len(list) == 0 {
		return nil, err
	}
	data, err := archive.Pack(list)
	if err != nil {
		return nil, err
	}
	made := &domain.EventArchive{
		SessionID: im.session.ID, UpToSeq: uint64(len(list)), Key: archive.Prefix(im.session.ID) + domain.NewID(), Events: len(list),
	}
	return made, im.desk.Objects.Put(ctx, made.Key, data)
}

// snapshots makes each snapshot again: what it holds is laid out in a directory
// of the service's own, from one to the next, and captured.
func (im *importing) snapshots(ctx context.Context) (map[string]string, error) {
	made := map[string]string{}
	if len(im.pack.points.Snapshots) == 0 {
		return made, nil
	}
	spool, err := im.desk.spool()
	if err != nil {
		return nil, err
	}
	defer spool.close()
	root, err := os.OpenRoot(spool.dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	stage := stage{root: root, has: map[string]snapshotFile{}}
	for _, s := range im.pack.points.Snapshots {
		if err := stage.show(s, im.blob); err != nil {
			return nil, refusal(err)
		}
		if made[s.ID], err = im.desk.Files.Capture(ctx, im.session.ID, spool.dir); err != nil {
			return nil, err
		}
	}
	return made, nil
}

func (im *importing) blob(sum string) (io.ReadCloser, error) {
	return im.pack.files[blobsDir+sum].Open()
}

func rawOrNil(raw json.RawMessage) json.RawMessage {
	if len(raw) == 0 || string(raw) == "null" {
		return nil
	}
	return raw
}
