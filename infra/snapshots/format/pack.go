package format

import (
	"crypto/sha256"
)

const (
	// FrameSize is how much of small files is compressed together, in bytes: what
	// must be read to show one of them.
	FrameSize = 1 << 20
	// packSize is the size at which a pack is closed. It never grows to the 16 MiB
	// from which on a client would upload it in parts.
	packSize = 8 << 20
)

// Pack is a finished pack and what it holds.
type Pack struct {
	Name  Hash // SHA-256 of data
	Data  []byte
	Holds map[Hash]Location
}

// Packer puts small contents into frames, and frames into packs. Contents that
// are added one after the other lie together.
type Packer struct {
	data  []byte
	frame []byte
	open  map[Hash]Location // in frame, whose place is not known yet
	holds map[Hash]Location
}

// Add takes a content, and gives a pack when one is full.
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

// Finish returns what there is as a pack, nil when that is nothing.
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
