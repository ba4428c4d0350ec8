package recordings

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/klauspost/compress/zstd"

	"everloop/domain"
)

// line is an event as an archive and an export hold it.
type line struct {
	Seq    uint64          `json:"seq"`
	ID     string          `json:"id,omitempty"`
	Name   string          `json:"name"`
	ChatID domain.ChatID   `json:"chat_id,omitempty"`
	At     time.Time       `json:"at"`
	Data   json.RawMessage `json:"data"`
}

// maxLine bounds one event that is read back, in bytes.
const maxLine = 64 << 20

// AppendLine writes an event as one line of JSON.
func AppendLine(w io.Writer, e domain.LoggedEvent) error {
	data := e.Data
	if len(data) == 0 {
		data = json.RawMessage("{}")
	}

	row, err := json.Marshal(line{Seq: e.Seq, ID: e.ID, Name: e.Name, ChatID: e.ChatID, At: e.At, Data: data})
	if err != nil {
		return err
	}

	_, err = w.Write(append(row, '\n'))

	return err
}

// ReadLines yields the events of lines that AppendLine wrote, of which none is longer
// than longest bytes.
func ReadLines(r io.Reader, longest int, yield func(domain.LoggedEvent) error) error {
	in := bufio.NewScanner(r)
	in.Buffer(nil, longest)

	for n := 1; in.Scan(); n++ {
		if len(bytes.TrimSpace(in.Bytes())) == 0 {
			continue
		}

		var l line
		if err := json.Unmarshal(in.Bytes(), &l); err != nil {
			return fmt.Errorf("event in line %d: %w", n, err)
		}

		if l.Name == "" || len(l.Data) == 0 || l.Data[0] != '{' {
			return fmt.Errorf("event in line %d has no name, or its data is not an object", n)
		}

		if err := yield(domain.LoggedEvent{
			Event: domain.Event{ID: l.ID, Name: l.Name, ChatID: l.ChatID, At: l.At.UTC(), Data: bytes.Clone(l.Data)}, Seq: l.Seq,
		}); err != nil {
			return err
		}
	}

	return in.Err()
}

// lineBytes is about what a line takes in addition to its data.
const lineBytes = 150

// packer compresses events into one object.
type packer struct {
	out   bytes.Buffer
	zip   *zstd.Encoder
	count int
	size  int // of the lines' data, in bytes
}

func newPacker() (*packer, error) {
	p := &packer{}

	var err error

	p.zip, err = zstd.NewWriter(&p.out, zstd.WithEncoderConcurrency(1))

	return p, err
}

func (p *packer) add(e domain.LoggedEvent) error {
	p.count++
	p.size += len(e.Data) + lineBytes

	return AppendLine(p.zip, e)
}

func (p *packer) bytes() ([]byte, error) {
	err := p.zip.Close()
	return p.out.Bytes(), err
}

// Unpack yields the events of an object.
func Unpack(data []byte, yield func(domain.LoggedEvent) error) error {
	unzip, err := zstd.NewReader(bytes.NewReader(data), zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(256<<20))
	if err != nil {
		return err
	}
	defer unzip.Close()

	return ReadLines(unzip, maxLine, yield)
}
