package safezip

import (
	"archive/zip"
	"bytes"
	"cmp"
	"encoding/binary"
	"io"
	"slices"
)

// Headers of the format, by APPNOTE.TXT of PKWARE.
const (
	localSignature   = "PK\x03\x04"
	centralSignature = "PK\x01\x02"
	localLength      = 30 // bytes, before the name
	hasDescriptor    = 8  // the flag of members whose sizes follow their data
)

// descriptors are the possible lengths in bytes of the data descriptor after a member's data:
// sizes of 4 or 8 bytes, with or without a signature.
var descriptors = []int64{16, 12, 24, 20}

// checkLocal compares the local header of each member with the central directory, because
// streaming programs read the local headers. Members must be contiguous from the first byte.
func checkLocal(r io.ReaderAt, members []*zip.File) error {
	type place struct {
		member *zip.File
		data   int64 // offset of its data
	}

	places := make([]place, len(members))

	for i, m := range members {
		data, err := m.DataOffset()
		if err != nil {
			return refuse(NotAnArchive, m.Name, "is not where the directory says")
		}

		places[i] = place{m, data}
	}

	slices.SortFunc(places, func(a, b place) int { return cmp.Compare(a.data, b.data) })

	ends := []int64{0} // possible ends of the previous member
	for _, p := range places {
		if !slices.ContainsFunc(ends, func(at int64) bool { return isLocal(r, at, p.member, p.data) }) {
			return refuse(NotAnArchive, p.member.Name, "has another name or place before its data than in the directory")
		}

		ends = endsOf(p.member, p.data)
	}

	if len(places) > 0 && !slices.ContainsFunc(ends, func(at int64) bool { return starts(r, at, centralSignature) }) {
		return refuse(NotAnArchive, "", "the archive has something else before its directory")
	}

	return nil
}

// isLocal reports whether a member's local header starts at an offset and ends at its data.
func isLocal(r io.ReaderAt, at int64, m *zip.File, data int64) bool {
	header := make([]byte, localLength+len(m.Name))
	if _, err := r.ReadAt(header, at); err != nil || !bytes.HasPrefix(header, []byte(localSignature)) {
		return false
	}

	name, extra := binary.LittleEndian.Uint16(header[26:]), binary.LittleEndian.Uint16(header[28:])

	return int(name) == len(m.Name) && string(header[localLength:]) == m.Name &&
		binary.LittleEndian.Uint16(header[8:]) == m.Method && at+localLength+int64(name)+int64(extra) == data
}

func endsOf(m *zip.File, data int64) []int64 {
	end := data + int64(m.CompressedSize64)
	if m.Flags&hasDescriptor == 0 {
		return []int64{end}
	}

	ends := make([]int64, len(descriptors))
	for i, length := range descriptors {
		ends[i] = end + length
	}

	return ends
}

func starts(r io.ReaderAt, at int64, signature string) bool {
	begin := make([]byte, len(signature))
	_, err := r.ReadAt(begin, at)

	return err == nil && string(begin) == signature
}
