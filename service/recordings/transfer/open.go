package transfer

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"everloop/domain"
	"everloop/domain/transfer"
	"everloop/internal/safezip"
)

// Bounds of the members that are read at once, in bytes, and of one line. An object
// of JSON, or a list, may take three bytes and become a hundred times as much.
const (
	maxManifest = 64 << 20
	maxSession  = 16 << 20
	maxHistory  = 64 << 20
	maxPoints   = 128 << 20 // read value by value
	maxMemories = 128 << 20 // read value by value
	maxPicture  = 32 << 20
	maxLine     = 40 << 20 // of a turn: a message of 16 MB, as it was sent and as it is shown
	maxEvent    = 20 << 20

	maxManifestObjects = 600_000
	maxSessionObjects  = 100_000
	maxHistoryObjects  = 650_000
	maxTurnObjects     = 100_000
)

// pack is an archive that was checked whole: every member has the hash that the
// manifest gives, and there is nothing that it does not list.
type pack struct {
	m       manifest
	session sessionBody
	tree    transfer.SessionTree
	points  points
	size    int64 // of the archive, in bytes
	// expanded is what the members take, in bytes.
	expanded int64
	room     int64 // bytes that a workspace may hold; 0: no limit
	files    map[string]*safezip.File
	listed   map[string]*member
	dirs     []string // of the workspace
	turns    int
	calls    int
	events   int
	waiting  map[domain.ChatID]bool // chats that wait for an answer, and can continue waiting
}

// open checks an archive for a workspace that may hold room bytes (0: no limit). It
// has no effect on anything.
func open(ctx context.Context, r io.ReaderAt, size, room int64) (*pack, error) {
	zip, err := safezip.Open(r, size, limits)
	if err != nil {
		return nil, refusal(err)
	}

	p := &pack{size: size, room: room, files: map[string]*safezip.File{}, listed: map[string]*member{}, waiting: map[domain.ChatID]bool{}}
	for _, f := range zip.Files {
		p.files[f.Name] = f
	}

	for _, dir := range zip.Directories {
		if rel, ours := strings.CutPrefix(dir, workspaceDir); ours {
			p.dirs = append(p.dirs, rel)
		}
	}

	if err := p.decode(manifestFile, maxManifest, maxManifestObjects, &p.m); err != nil {
		return nil, err
	}

	if p.m.FormatVersion != FormatVersion {
		return nil, badf("%s: format_version is %d; this service reads %d", manifestFile, p.m.FormatVersion, FormatVersion)
	}

	for _, check := range []func() error{
		p.members, p.fits, func() error { return p.hashes(ctx) },
		func() error { return p.decode(sessionFile, maxSession, maxSessionObjects, &p.session) },
		func() error { return p.decode(historyFile, maxHistory, maxHistoryObjects, &p.tree) },
		p.readPoints, p.readMemories,
		p.links, p.checkSession, p.checkSetup, p.checkTree, p.checkTurns, p.checkPoints, p.checkEvents,
	} {
		if err := check(); err != nil {
			return nil, err
		}
	}

	return p, nil
}

// decode reads a member that is one JSON value of limited bytes and objects.
func (p *pack) decode(name string, limit int64, objects int, into any) error {
	f := p.files[name]
	if f == nil {
		return badf("%s is missing", name)
	}

	data, err := f.ReadAll(limit)
	if err != nil {
		return refusal(err)
	}

	if err := strict(data, objects, into); err != nil {
		return badf("%s: %s", name, err)
	}

	return nil
}

// strict decodes exactly one JSON value of at most so many objects and lists. Its
// errors name no values.
func strict(data []byte, objects int, into any) error {
	if countObjects(data) > objects {
		return fmt.Errorf("holds more than %d objects and lists", objects)
	}

	d := json.NewDecoder(bytes.NewReader(data))
	if err := d.Decode(into); err != nil {
		return jsonFault(err)
	}

	if _, err := d.Token(); err != io.EOF {
		return fmt.Errorf("holds more than one JSON value")
	}

	return nil
}

// jsonFault says what is wrong with JSON, without a value of it.
func jsonFault(err error) error {
	if syntax, ok := err.(*json.SyntaxError); ok {
		return fmt.Errorf("is not valid JSON at byte %d", syntax.Offset)
	}

	if kind, ok := err.(*json.UnmarshalTypeError); ok {
		return fmt.Errorf("%s has the wrong type", kind.Field)
	}

	return fmt.Errorf("is not valid JSON of this form")
}

// countObjects counts the objects and lists of JSON before they take memory.
func countObjects(data []byte) int {
	n, text := 0, false

	for i := 0; i < len(data); i++ {
		switch data[i] {
		case '"':
			text = !text
		case '\\':
			i++ // only texts have it: what is behind it ends none
		case '{', '[':
			if !text {
				n++
			}
		}
	}

	return n
}

// members holds the archive's directory against the manifest's list.
func (p *pack) members() error {
	for i, m := range p.m.Members {
		if _, twice := p.listed[m.Name]; twice {
			return badf("the manifest lists %q twice", shorten(m.Name))
		}

		p.listed[m.Name] = &p.m.Members[i]

		f := p.files[m.Name]
		if f == nil {
			return badf("the manifest lists %q, which the archive does not have", shorten(m.Name))
		}

		if f.Size != m.Size {
			return badf("%q has %d bytes, the manifest says %d", shorten(m.Name), f.Size, m.Size)
		}
	}

	for name := range p.files {
		if _, listed := p.listed[name]; !listed && name != manifestFile {
			return badf("%q is not in the manifest", shorten(name))
		}

		switch name {
		case manifestFile, sessionFile, turnsFile, eventsFile, checkpointsFile, historyFile, memoriesFile:
			continue
		}

		dir, rest, _ := strings.Cut(name, "/")
		switch dir + "/" {
		case workspaceDir:
		case blobsDir, attachmentsDir:
			if len(rest) != 64 || strings.Trim(rest, "0123456789abcdef") != "" {
				return badf("%q is not named by a hash", shorten(name))
			}
		default:
			return badf("%q has no place in an archive of a session", shorten(name))
		}
	}

	return nil
}

// hashes reads everything once and compares.
func (p *pack) hashes(ctx context.Context) error {
	for _, m := range p.m.Members {
		content, err := p.files[m.Name].Open()
		if err != nil {
			return refusal(err)
		}

		sum, err := hashOf(ctx, content)
		_ = content.Close()

		if err != nil {
			return refusal(err)
		}

		if sum != m.SHA256 {
			return badf("%q does not have the hash that the manifest gives", shorten(m.Name))
		}

		for _, dir := range []string{blobsDir, attachmentsDir} {
			if name, ours := strings.CutPrefix(m.Name, dir); ours && name != sum {
				return badf("%q does not have the hash that it is named by", shorten(m.Name))
			}
		}
	}

	return nil
}

// links checks the links of the workspace: where they lead, and that nothing
// lies at or below one.
func (p *pack) links() error {
	if len(p.m.Links) > limits.Files {
		return badf("the manifest lists more than %d links", limits.Files)
	}

	names := make([]placed, 0, len(p.files)+len(p.dirs)+len(p.m.Links))
	for name := range p.files {
		if rel, ours := strings.CutPrefix(name, workspaceDir); ours {
			names = append(names, placed{path: rel, leaf: true})
		}
	}

	for _, dir := range p.dirs {
		names = append(names, placed{path: dir})
	}

	for _, l := range p.m.Links {
		if problem := linkProblem(l.Path, l.Target); problem != "" {
			return badf("the link %q %s", shorten(l.Path), problem)
		}

		names = append(names, placed{path: l.Path, leaf: true})
	}

	if len(p.m.Links) == 0 {
		return nil
	}

	_, err := arrange(names)

	return err
}

// eachLine yields the lines of a member.
func (p *pack) eachLine(name string, yield func(n int, line []byte) error) error {
	f := p.files[name]
	if f == nil {
		return badf("%s is missing", name)
	}

	content, err := f.Open()
	if err != nil {
		return refusal(err)
	}
	defer content.Close()

	lines := bufio.NewScanner(content)
	lines.Buffer(nil, maxLine)

	for n := 1; lines.Scan(); n++ {
		if err := yield(n, lines.Bytes()); err != nil {
			return err
		}
	}

	if err := lines.Err(); err != nil {
		if err == bufio.ErrTooLong {
			return badf("%s has a line of more than %d bytes", name, maxLine)
		}

		return refusal(err)
	}

	return nil
}

// entries yields the turns as they stand in the archive.
func (p *pack) entries(yield func(transfer.EntryRecord) error) error {
	return p.eachLine(turnsFile, func(n int, line []byte) error {
		var e transfer.EntryRecord
		if err := strict(line, maxTurnObjects, &e); err != nil {
			return badf("%s line %d: %s", turnsFile, n, err)
		}

		return yield(e)
	})
}

func shorten[T ~string](text T) string {
	if len(text) > 120 {
		return strings.ToValidUTF8(string(text[:120]), "") + "…"
	}

	return string(text)
}
