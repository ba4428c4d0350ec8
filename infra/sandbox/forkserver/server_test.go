//go:build linux

package forkserver

import (
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
)

func load(b []byte) uintptr {
	clear(request[:])
	return uintptr(copy(unsafe.Slice((*byte)(unsafe.Pointer(&request)), MaxProgram), b))
}

func TestRelocate(t *testing.T) {
	data := []byte("12345678path\x00\x00\x00\x00")
	op := Op{Nr: 1, Kinds: Pointer | Slot<<2, Out: 3, Args: [6]uint64{8, 3, 99}}
	require.True(t, relocate(load(Encode(0, 0, []Op{op}, []Relocation{{At: 0, Target: 8}}, data))))

	got := opAt(0)
	base := uintptr(unsafe.Pointer(&request)) + headerSize + opSize + relocSize
	require.Equal(t, uint64(base+8), got.Args[0])
	require.Equal(t, uint64(99), got.Args[2])
	require.Equal(t, uint64(base+8), request[(headerSize+opSize+relocSize)/8])

	refused := map[string][]byte{
		"empty":               nil,
		"no data":             Encode(0, 0, []Op{op}, nil, nil),
		"pointer outside":     Encode(0, 0, []Op{{Kinds: Pointer, Out: NoSlot, Args: [6]uint64{16}}}, nil, data),
		"slot outside":        Encode(0, 0, []Op{{Kinds: Slot, Out: NoSlot, Args: [6]uint64{slots}}}, nil, data),
		"result outside":      Encode(0, 0, []Op{{Out: slots}}, nil, data),
		"relocation outside":  Encode(0, 0, nil, []Relocation{{At: 9}}, data),
		"relocation's target": Encode(0, 0, nil, []Relocation{{Target: 16}}, data),
	}
	cut := Encode(0, 0, []Op{op, op}, nil, nil)

	refused["cut"] = cut[:len(cut)-1]
	for name, b := range refused {
		require.False(t, relocate(load(b)), name)
	}
}

func TestEncodeStart(t *testing.T) {
	b := EncodeStart([]string{"/bin/x", "/usr/bin/x"}, []string{"x", "", "a b"}, []string{"A=1"}, "/workspace")
	text := func(at uint64) string {
		end := at
		for b[end] != 0 {
			end++
		}

		return string(b[at:end])
	}
	words := unsafe.Slice((*uint64)(unsafe.Pointer(&b[0])), len(b)/8)
	require.Equal(t, []uint64{uint64(len(b)), 3, 1, 2}, words[:4])
	require.Equal(t, "/workspace", text(words[4]))

	var got []string

	for _, w := range words[5:13] {
		if w == 0 {
			got = append(got, "|")
			continue
		}

		got = append(got, text(w))
	}

	require.Equal(t, []string{"x", "", "a b", "|", "A=1", "|", "/bin/x", "/usr/bin/x"}, got)
}

func TestItoa(t *testing.T) {
	require.Equal(t, "0", itoa(0))
	require.Equal(t, "32768", itoa(32768))
}
