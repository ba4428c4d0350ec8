package format

import (
	"crypto/sha256"
)

const (
	// FrameSize is the amount of small files that is compressed together, in bytes: the amount to
	// read for one of them.
	FrameSize = 1 << 20
	// packSize is the size at which a pack is closed. Packs stay below the 16 MiB from which a
	// client uses multipart uploads.
	packSize = 8 << 20
)

// Pack is a finished pack and its locations.
type Pack struct {
	Name  Hash // SHA-256 of data
	Data  []byte
	Holds map[Hash]Location
}

// Packer adds small contents to frames, and frames to packs. Contents that are added in sequence
// are adjacent.
type Packer struct {
	data  []byte
	frame []byte
	open  map[Hash]Location // in frame; its location is not yet fixed
	holds map[Hash]Location
}

// Add adds a content, and returns a pack when one is full.
func (p *Packer) Add(sum Hash, content []byte) *Pack {
	if len(p.frame) > 0 && len(p.frame)+len(content) > FrameSize {
		p.endFrame()
	}

	if p.open == nil {
		p.open = map[Hash]Location{}
	}

	p.open[sum] = Location{Offset: uint32(len(p.frame)), Length: uint32(len(content))}

	p.frame = append(p.frame, content...)
	if len(p.frame) >= FrameSize {
		p.endFrame()
	}

	if len(p.data) >= packSize {
		return p.Finish()
	}

	return nil
}

func (p *Packer) endFrame() {
	if len(p.frame) == 0 {
		return
	}

	start := len(p.data)

	p.data = Encoder().EncodeAll(p.frame, p.data)
	if p.holds == nil {
		p.holds = map[Hash]Location{}
	}

	for sum, at := range p.open {
		at.Frame, at.FrameLength = uint32(start), uint32(len(p.data)-start)
		p.holds[sum] = at
	}

	clear(p.open)
	p.frame = p.frame[:0]
}

// Finish returns the remaining contents as a pack, or nil when there are none.
func (p *Packer) Finish() *Pack {
	p.endFrame()

	if len(p.data) == 0 {
		return nil
	}

	done := &Pack{Name: sha256.Sum256(p.data), Data: p.data, Holds: p.holds}
	for sum, at := range done.Holds {
		at.Pack = done.Name
		done.Holds[sum] = at
	}

	p.data, p.holds = nil, nil

	return done
}
