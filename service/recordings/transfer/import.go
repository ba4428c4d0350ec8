package transfer

import (
	"context"
	"encoding/json"
	"io"
	"io/fs"
	"net/http"
	"strings"

	"everloop/domain"
	"everloop/domain/speech"
	"everloop/domain/transfer"
	"everloop/service/recordings"
)

// Preview checks an archive as an import would, and returns what is in it. An
// archive that an import would refuse is returned as not compatible, with the reason.
func (d *Service) Preview(ctx context.Context, ownerID string, r io.ReaderAt, size int64) (transfer.ImportPreview, error) {
	out := transfer.ImportPreview{Missing: []transfer.MissingThing{}, Warnings: []string{}, Errors: []string{}}

	leave, ok := d.uploads.enter(ownerID, maxUploads, maxOwnUploads)
	if !ok {
		return out, tooManyImports()
	}
	defer leave()

	release, err := d.reading.wait(ctx, maxReading)
	if err != nil {
		return out, err
	}
	defer release()

	p, err := open(ctx, r, size, d.cfg.WorkspaceBytes)
	if err != nil {
		if kind := domain.AsError(err).Kind; kind != domain.Invalid && kind != domain.TooLarge {
			return out, err
		}

		out.Errors = append(out.Errors, domain.AsError(err).Message)

		return out, nil
	}

	out.FormatVersion, out.Compatible = p.m.FormatVersion, true

	created := later(p.session.CreatedAt)

	out.Session = transfer.ImportSummary{Intent: p.session.Intent, CreatedAt: &created}
	if p.session.Model != nil {
		out.Session.Model = *p.session.Model
	}

	out.Counts = p.counts()

	out.Missing = d.missing(ctx, p)
	if len(p.session.EnvNames) > 0 {
		out.Warnings = append(
			out.Warnings,
			"the environment has to be set again: "+strings.Join(p.session.EnvNames[:min(len(p.session.EnvNames), 50)], ", "),
		)
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

func (p *pack) counts() transfer.ImportCounts {
	c := transfer.ImportCounts{Turns: p.turns, Checkpoints: len(p.points.Checkpoints), Branches: len(p.tree.Branches)}
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
func (d *Service) missing(ctx context.Context, p *pack) []transfer.MissingThing {
	out := []transfer.MissingThing{}

	for _, thing := range []struct {
		kind string
		name *string
	}{{"model", p.session.Model}, {"solution", p.session.SolutionID}, {"skill", p.session.PrimarySkillID}} {
		if thing.name != nil && *thing.name != "" && d.cfg.Known != nil && !d.cfg.Known(ctx, thing.kind, *thing.name) {
			out = append(out, transfer.MissingThing{Kind: thing.kind, Name: *thing.name})
		}
	}

	return out
}

// importing is one import under way.
type importing struct {
	service *Service
	pack    *pack
	session domain.Session
	names   recordings.Names
	attempt int
	from    transfer.ImportedFrom
}

// run writes everything else before the rows, so that the session is whole when they
// appear.
func (im *importing) run(ctx context.Context) error {
	counts := im.pack.counts()
	if err := im.service.cfg.Files.Fits(ctx, im.session, counts.Bytes, counts.Files); err != nil {
		return err
	}

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

	return im.service.FinishImport(ctx, transfer.ImportedSession{
		Session: im.session,
		Tree:    im.tree(snapshots),
		Entries: im.entries,
		Tasks:   im.pack.session.Tasks,
		Extra:   im.pack.session.Extra,
		Events:  events,
		Attempt: im.attempt,
		From:    im.from,
	})
}

// role leaves out a role that the new owner may not take: whatever an archive says,
// it grants no right.
func (im *importing) role(ctx context.Context) error {
	s := &im.session
	if s.SolutionID == nil || s.BizRoleID == nil {
		return nil
	}

	allowed, err := im.service.cfg.Roles(ctx, s.OwnerID, *s.SolutionID)
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

		data, err := f.ReadAll(maxPicture)
		if err != nil {
			return refusal(err)
		}

		mime := http.DetectContentType(data)
		if !strings.HasPrefix(mime, "image/") {
			format, known := speech.FindAudioFormat(data)
			if !known {
				return badf("%q is neither a picture nor a recording", shorten(name))
			}

			mime = format.MIME
		}

		if err := im.service.cfg.Objects.PutImage(ctx, im.session.ID, picture, mime, data); err != nil {
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
	return im.service.cfg.Files.Put(ctx, im.session, f, content)
}

// events keeps what happened in the session as the archive that a replay reads.
func (im *importing) events(ctx context.Context) ([]transfer.EventArchive, error) {
	out := recordings.NewWriter(im.session.ID, im.service.cfg.Objects)
	seq := uint64(0)

	err := im.pack.eachEvent(func(e domain.LoggedEvent) error {
		data, err := im.names.Data(e.Data)
		if err != nil {
			return badf("%s: an event cannot be read", eventsFile)
		}

		e.Data, e.ID, e.At = data, "", later(e.At)
		if chat, known := im.names.IDs[string(e.ChatID)]; known {
			e.ChatID = domain.ChatID(chat)
		} else if e.ChatID != "" {
			return nil // of a chat that the session does not have any more
		}

		seq++
		e.Seq = seq

		return out.Add(ctx, e)
	})
	if err != nil {
		return nil, err
	}

	return out.Close(ctx)
}

// snapshots makes each snapshot again, of the contents that it names.
func (im *importing) snapshots(ctx context.Context) (map[string]string, error) {
	made := map[string]string{}

	build, err := im.service.cfg.Files.Build(im.session.ID, im.blob)
	if err != nil {
		return nil, err
	}

	for _, s := range im.pack.points.Snapshots {
		if made[s.ID], err = build(ctx, s.carried()); err != nil {
			return nil, refusal(err)
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
