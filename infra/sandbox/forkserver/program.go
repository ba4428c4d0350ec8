package forkserver

import "unsafe"

// Arg0 is the name (argument zero) under which the program's own binary
// becomes a fork server. Its control socket, of type SOCK_SEQPACKET, is file
// descriptor 3; the server ends when the other end is closed.
const Arg0 = "everloop-sandbox-forkserver"

// Where a container has what process 1 of it needs. Started as GuestPath, the
// program's own binary takes one program and one command from the stream socket
// GuestControl/GuestSocket, and ends with everything in the container when the
// other end is closed.
const (
	GuestPath    = "/.everloop/guest"
	GuestControl = "/.everloop/control"
	GuestSocket  = "service"
)

// GuestThreads is more than the threads that the Go runtime of process 1 of a
// container starts.
const GuestThreads = 8

// Bounds of the fixed buffers.
const (
	MaxProgram = 128 << 10 // bytes of an encoded program
	MaxStart   = 1 << 20   // bytes of an encoded command
	MaxFiles   = 8         // descriptors in one message
	slots      = 32        // results that a program can keep
)

// ControlFD is the descriptor of a child's own control socket.
const ControlFD = 3

// Kinds of an argument of an [Op], two bits each.
const (
	Const   = 0 // the value itself
	Pointer = 1 // an offset into the program's data
	Slot    = 2 // the result of an earlier op, or a descriptor that came with the release
)

// Flags of an [Op].
const (
	MayFail = 1 // an error is not reported and does not end the sandbox
)

// NoSlot as an op's Out means that the result is not kept.
const NoSlot = 0xff

// Op is one system call.
type Op struct {
	Nr    uint32
	Kinds uint16
	Flags uint8
	Out   uint8 // slot for the result, or NoSlot
	Args  [6]uint64
}

// Flags of a [Header].
const (
	// OwnPIDNamespace reports that the child is process 1 of its own process
	// namespace: when the command ends it kills everything there, before it
	// reports.
	OwnPIDNamespace = 1
)

// Header starts an encoded program; the ops follow, then the relocations, then
// the data.
type Header struct {
	CloneFlags  uint64
	Flags       uint64
	Ops         uint64 // number of ops
	Relocations uint64 // number of relocations
}

// Relocation has the address of the data at offset Target stored in the data
// at offset At.
type Relocation struct {
	At, Target uint32
}

// CloneReply is the server's answer to a program. When Errno is 0 the child's
// pidfd is sent with it.
type CloneReply struct {
	PID   int32
	Errno int32
}

// Kinds of a [Report].
const (
	Ready      = 1 // the program was run; the child waits for a command
	OpFailed   = 2 // op Index failed with Errno
	ExecFailed = 3 // the command could not be started: Errno
	Exited     = 4 // the command ended: Status as returned by wait(2)
	BadStart   = 5 // the command was malformed
	Listening  = 6 // written by a program, with a listening socket
)

// Report is a message of a child on its control socket.
type Report struct {
	Kind   uint32
	Index  uint32
	Errno  uint32
	Status uint32
	CPU    uint64 // microseconds of processor time, user and system
	MaxRSS uint64 // bytes
}

// ReportSize is the size of an encoded Report.
const ReportSize = int(unsafe.Sizeof(Report{}))

// StartHeader starts an encoded command. It is followed by, as 8-byte offsets
// from the start of the message, Argc arguments, a zero, Envc environment
// entries, a zero, Pathc paths to try; then the strings, each ended by a zero
// byte. Standard input, output and error are descriptors of the message.
type StartHeader struct {
	Size  uint64 // of the whole message
	Argc  uint64
	Envc  uint64
	Pathc uint64
	Dir   uint64 // offset of the working directory
}

// ReleaseSize is the size of the message that lets a new child run its program.
// It may carry descriptors, which become slots 0, 1, 2 ….
const ReleaseSize = 8

const (
	headerSize = unsafe.Sizeof(Header{})
	opSize     = unsafe.Sizeof(Op{})
	relocSize  = unsafe.Sizeof(Relocation{})
	startSize  = unsafe.Sizeof(StartHeader{})
)
