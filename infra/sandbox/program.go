//go:build linux

package sandbox

import (
	"fmt"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"everloop/infra/sandbox/forkserver"
)

// program collects the system calls of a sandbox's set-up for the fork
// server, each with a description of its purpose.
type program struct {
	clone  uint64
	flags  uint64
	ops    []forkserver.Op
	labels []string
	data   []byte
	relocs []forkserver.Relocation
	slots  uint8
}

// An operand is an argument of a call: a number, a pointer into the program's
// data, or the result of an earlier call.
type operand struct {
	kind  uint16
	value uint64
}

func num[T ~int | ~int32 | ~int64 | ~uint32 | ~uint64 | ~uintptr](v T) operand {
	return operand{forkserver.Const, uint64(v)}
}

var (
	none  = num(0)
	atCWD = num(unix.AT_FDCWD)
)

// str stores a C string.
func (p *program) str(s string) operand { return p.bytes(append([]byte(s), 0)) }

// bytes stores data at an 8-byte boundary.
func (p *program) bytes(b []byte) operand {
	for len(p.data)%8 != 0 {
		p.data = append(p.data, 0)
	}

	at := len(p.data)
	p.data = append(p.data, b...)

	return operand{forkserver.Pointer, uint64(at)}
}

// object stores the memory of a fixed-size value without pointers.
func object[T any](p *program, v T) operand {
	return p.bytes(unsafe.Slice((*byte)(unsafe.Pointer(&v)), unsafe.Sizeof(v)))
}

// pointerAt has the address of target stored offset bytes into a stored object.
func (p *program) pointerAt(obj operand, offset uint32, target operand) {
	p.relocs = append(p.relocs, forkserver.Relocation{At: uint32(obj.value) + offset, Target: uint32(target.value)})
}

// call adds a call that must succeed.
func (p *program) call(label string, nr uintptr, args ...operand) { p.add(label, 0, false, nr, args) }

// try adds a call whose failure does not matter.
func (p *program) try(nr uintptr, args ...operand) {
	p.add("", forkserver.MayFail, false, nr, args)
}

// open adds a call whose result later calls use.
func (p *program) open(label string, nr uintptr, args ...operand) operand {
	return p.add(label, 0, true, nr, args)
}

// tryOpen is open for a call that may fail; a use of its result then fails too.
func (p *program) tryOpen(nr uintptr, args ...operand) operand {
	return p.add("", forkserver.MayFail, true, nr, args)
}

func (p *program) add(label string, flags uint8, keep bool, nr uintptr, args []operand) operand {
	op := forkserver.Op{Nr: uint32(nr), Flags: flags, Out: forkserver.NoSlot}
	for i, a := range args {
		op.Kinds |= a.kind << (2 * i)
		op.Args[i] = a.value
	}

	result := none

	if keep {
		op.Out = p.slots
		result = operand{forkserver.Slot, uint64(p.slots)}
		p.slots++
	}

	p.ops = append(p.ops, op)
	p.labels = append(p.labels, label)

	return result
}

// received names the i-th descriptor of the release message. It must be
// requested before any call that keeps its result.
func (p *program) received() operand {
	result := operand{forkserver.Slot, uint64(p.slots)}
	p.slots++

	return result
}

func (p *program) encode() ([]byte, error) {
	b := forkserver.Encode(p.clone, p.flags, p.ops, p.relocs, p.data)
	if len(b) > forkserver.MaxProgram {
		return nil, fmt.Errorf("sandbox: program of %d bytes is too large", len(b))
	}

	return b, nil
}

// fault explains a report of a failed op.
func (p *program) fault(r forkserver.Report) error {
	label := "set-up"
	if int(r.Index) < len(p.labels) {
		label = p.labels[r.Index]
	}

	return fmt.Errorf("sandbox: %s: %w", label, syscall.Errno(r.Errno))
}
