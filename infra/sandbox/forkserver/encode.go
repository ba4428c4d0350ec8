package forkserver

import "unsafe"

// Encode lays out a program for the control socket.
func Encode(cloneFlags, flags uint64, ops []Op, relocations []Relocation, data []byte) []byte {
	h := Header{CloneFlags: cloneFlags, Flags: flags, Ops: uint64(len(ops)), Relocations: uint64(len(relocations))}
	out := make([]byte, 0, int(headerSize)+len(ops)*int(opSize)+len(relocations)*int(relocSize)+len(data))

	out = append(out, unsafe.Slice((*byte)(unsafe.Pointer(&h)), headerSize)...)
	for i := range ops {
		out = append(out, unsafe.Slice((*byte)(unsafe.Pointer(&ops[i])), opSize)...)
	}

	for i := range relocations {
		out = append(out, unsafe.Slice((*byte)(unsafe.Pointer(&relocations[i])), relocSize)...)
	}

	return append(out, data...)
}

// EncodeStart lays out a command. Strings must hold no zero byte.
func EncodeStart(paths, argv, env []string, dir string) []byte {
	words := int(startSize)/8 + len(argv) + 1 + len(env) + 1 + len(paths)
	size := words*8 + len(dir) + 1

	for _, list := range [][]string{argv, env, paths} {
		for _, s := range list {
			size += len(s) + 1
		}
	}

	out := make([]byte, words*8, size)
	next := int(startSize)
	put := func(at int, v uint64) { *(*uint64)(unsafe.Pointer(&out[at])) = v }

	add := func(s string) uint64 {
		at := len(out)
		out = append(append(out, s...), 0)

		return uint64(at)
	}
	for i, list := range [][]string{argv, env, paths} {
		for _, s := range list {
			put(next, add(s))
			next += 8
		}

		if i < 2 {
			next += 8 // the zero that ends argv and env
		}
	}

	h := StartHeader{Size: uint64(size), Argc: uint64(len(argv)), Envc: uint64(len(env)), Pathc: uint64(len(paths)), Dir: add(dir)}
	copy(out, unsafe.Slice((*byte)(unsafe.Pointer(&h)), startSize))

	return out
}

// DecodeReport reads what a child wrote.
func DecodeReport(b [ReportSize]byte) Report {
	return *(*Report)(unsafe.Pointer(&b))
}

// DecodeCloneReply reads the server's answer.
func DecodeCloneReply(b [8]byte) CloneReply {
	return *(*CloneReply)(unsafe.Pointer(&b))
}
