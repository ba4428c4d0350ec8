//go:build linux

package snapshots

import (
	"crypto/sha256"
)

const (
	// frameSize is how much of small files is compressed together, in bytes: what
	// has to be read to show one of them.
	frameSize = 1 << 20
	// packSize is the size at which a pack is closed. It never grows to the 16 MiB
	// from which on a client would upload it in parts.
	packSize = 8 << 20
)

// pack is a finished pack and what it holds.
type pack struct {
	name  hash // SHA-256 of data
	data  []byte
	holds map[hash]location
}

// packer puts small contents into frames, and frames into packs. Contents that
// are added one after the other lie together.
type packer struct {
	data  []byte
	frame []byte
	open  map[hash]location // in frame, whose place is not known yet
	holds map[hash]location
}

// add takes a content, and gives a pack when one is full.
func (p *packer) add(sum hash, content []byte) *pack {
	if len(p.frame) > 0 && len(p.frame)+len(content) > frameSize {
		p.endFrame()
	}

	if p.open == nil {
		p.open = map[hash]location{}
	}

	p.open[sum] = location{offset: uint32(len(p.frame)), length: uint32(len(content))}

	p.frame = append(p.frame, content...)
	if len(p.frame) >= frameSize {
		p.endFrame()
	}

	if len(p.data) >= packSize {
		return p.finish()
	}

	return nil
}

func (p *packer) endFrame() {
	if len(p.frame) == 0 {
		return
	}

	start := len(p.data)

	p.data = encoder().EncodeAll(p.frame, p.data)
	if p.holds == nil {
		p.holds = map[hash]location{}
	}

	for sum, at := range p.open {
		at.frame, at.frameLength = uint32(start), uint32(len(p.data)-start)
		p.holds[sum] = at
	}

	clear(p.open)
	p.frame = p.frame[:0]
}

// finish gives what there is as a pack, nil when that is nothing.
func (p *packer) finish() *pack {
	p.endFrame()

	if len(p.data) == 0 {
		return nil
	}

	done := &pack{name: sha256.Sum256(p.data), data: p.data, holds: p.holds}
	for sum, at := range done.holds {
		at.pack = done.name
		done.holds[sum] = at
	}

	p.data, p.holds = nil, nil

	return done
}
