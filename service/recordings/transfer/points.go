package transfer

import (
	"encoding/json"
	"io"
	"io/fs"

	"everloop/domain"
	"everloop/domain/transfer"
	"everloop/internal/safezip"
)

// points is checkpoints.json as an import keeps it: in little memory.
type points struct {
	Checkpoints []transfer.CheckpointRecord
	Snapshots   []listedSnapshot
}

type listedSnapshot struct {
	ID    string
	Files []listedFile
}

// listedFile is one entry of a snapshot; content is the member with the content of a
// file, and nil for a directory or a link.
type listedFile struct {
	path    string
	target  string // of a link
	content *member
	mode    uint16
}

// carried returns the entries as they are written.
func (s listedSnapshot) carried() []domain.CarriedFile {
	list := make([]domain.CarriedFile, len(s.Files))
	for i, f := range s.Files {
		list[i] = domain.CarriedFile{Path: f.path, Target: f.target}
		switch {
		case f.content != nil:
			list[i].Mode, list[i].Size, list[i].Identity = fs.FileMode(f.mode), f.content.Size, f.content.SHA256
		case f.target != "":
			list[i].Mode = fs.ModeSymlink
		default:
			list[i].Mode = fs.ModeDir
		}
	}

	return list
}

// maxListed bounds the entries of all snapshots, with the directories that they need.
const maxListed = 1_000_000

// pointsReader reads checkpoints.json value by value.
type pointsReader struct {
	p     *pack
	json  *json.Decoder
	texts map[string]string // paths that snapshots share
	total int
}

// readPoints reads and checks what the checkpoints are and what their snapshots list.
func (p *pack) readPoints() error {
	return p.stream(checkpointsFile, maxPoints, func(d *json.Decoder) error {
		r := &pointsReader{p: p, json: d, texts: map[string]string{}}

		return object(d, func(field string) error {
			switch field {
			case "checkpoints":
				return array(d, r.checkpoint)
			case "snapshots":
				return array(d, r.snapshot)
			}

			return skip(d)
		})
	})
}

func (r *pointsReader) checkpoint() error {
	var k transfer.CheckpointRecord
	if err := r.json.Decode(&k); err != nil {
		return err
	}

	if len(r.p.points.Checkpoints) == maxCheckpoints {
		return badf("%s holds more than a session can have", checkpointsFile)
	}

	r.p.points.Checkpoints = append(r.p.points.Checkpoints, k)

	return nil
}

func (r *pointsReader) snapshot() error {
	if len(r.p.points.Snapshots) == maxCheckpoints {
		return badf("%s holds more than a session can have", checkpointsFile)
	}

	var s listedSnapshot

	err := object(r.json, func(field string) error {
		switch field {
		case "id":
			return r.json.Decode(&s.ID)
		case "files":
			return array(r.json, func() error { return r.file(&s) })
		}

		return skip(r.json)
	})
	if err != nil {
		return err
	}

	if err := r.check(s); err != nil {
		return err
	}

	r.p.points.Snapshots = append(r.p.points.Snapshots, s)

	return nil
}

func (r *pointsReader) file(s *listedSnapshot) error {
	var f snapshotFile
	if err := r.json.Decode(&f); err != nil {
		return err
	}

	if len(s.Files) >= maxListed {
		return badf("%s lists more than %d files", checkpointsFile, maxListed)
	}

	if problem := safezip.CheckName(f.Path); problem != "" {
		return badf("a file of a snapshot %s", problem)
	}

	out := listedFile{path: r.shared(f.Path), mode: uint16(f.Mode & 0o777)}
	switch f.Type {
	case typeDirectory:
	case typeLink:
		if problem := linkProblem(f.Path, f.Target); problem != "" {
			return badf("the link %q of a snapshot %s", shorten(f.Path), problem)
		}

		out.target = r.shared(f.Target)
	case typeFile:
		m, listed := r.p.listed[blobsDir+f.SHA256]
		if !listed || m.Size != f.Size {
			return badf("the content of %q in a snapshot is not in the archive", shorten(f.Path))
		}

		out.content = m
	default:
		return badf("%q in a snapshot is neither file, directory nor link", shorten(f.Path))
	}

	s.Files = append(s.Files, out)

	return nil
}

// shared returns equal texts one memory.
func (r *pointsReader) shared(text string) string {
	if known, found := r.texts[text]; found {
		return known
	}

	r.texts[text] = text

	return text
}

// check holds a snapshot as a whole against its bounds.
func (r *pointsReader) check(s listedSnapshot) error {
	names := make([]placed, len(s.Files))

	var bytes int64

	for i, f := range s.Files {
		names[i] = placed{path: f.path, leaf: f.content != nil || f.target != ""}
		if f.content != nil {
			bytes += f.content.Size
		}

		if bytes > limits.Expanded {
			break
		}
	}

	if err := r.p.bounded("the files of a snapshot", bytes); err != nil {
		return err
	}

	entries, err := arrange(names)
	if err != nil {
		return err
	}

	if r.total += entries; r.total > maxListed {
		return badf("%s lists more than %d files and directories", checkpointsFile, maxListed)
	}

	return nil
}

// readMemories checks that the memories are a list. They are to read, and stay
// behind.
func (p *pack) readMemories() error {
	return p.stream(memoriesFile, maxMemories, func(d *json.Decoder) error {
		return array(d, func() error { return skip(d) })
	})
}

// stream reads a member of at most limit bytes that is one JSON value.
func (p *pack) stream(name string, limit int64, read func(*json.Decoder) error) error {
	f := p.files[name]
	if f == nil {
		return badf("%s is missing", name)
	}

	if f.Size > limit {
		return badf("%s has more than %d bytes", name, limit)
	}

	content, err := f.Open()
	if err != nil {
		return refusal(err)
	}
	defer content.Close()

	d := json.NewDecoder(content)

	err = read(d)
	if err == nil {
		if _, more := d.Token(); more != io.EOF {
			return badf("%s: holds more than one JSON value", name)
		}

		return nil
	}

	if refused := refusal(err); domain.AsError(refused).Kind != domain.Internal {
		return refused
	}

	return badf("%s: %s", name, jsonFault(err))
}

// object reads an object, of which value reads each field's value.
func object(d *json.Decoder, value func(field string) error) error {
	return between(d, '{', func() error {
		field, err := d.Token()
		if err != nil {
			return err
		}

		name, _ := field.(string)

		return value(name)
	})
}

// array reads a list; null is an empty one.
func array(d *json.Decoder, value func() error) error { return between(d, '[', value) }

func between(d *json.Decoder, open json.Delim, each func() error) error {
	begin, err := d.Token()
	switch {
	case err != nil:
		return err
	case begin == nil:
		return nil
	case begin != open:
		return &json.UnmarshalTypeError{Field: "a value"}
	}

	for d.More() {
		if err := each(); err != nil {
			return err
		}
	}

	_, err = d.Token()

	return err
}

// skip reads a value in little memory.
func skip(d *json.Decoder) error {
	for depth := 0; ; {
		token, err := d.Token()
		if err != nil {
			return err
		}

		switch token {
		case json.Delim('{'), json.Delim('['):
			depth++
		case json.Delim('}'), json.Delim(']'):
			depth--
		}

		if depth == 0 {
			return nil
		}
	}
}
