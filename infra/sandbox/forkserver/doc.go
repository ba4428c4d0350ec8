// Package forkserver is the small process that sandboxes are forked from.
//
// A sandbox needs some seventy system calls between fork and exec, and a Go
// program may not run ordinary code there. The usual answer, executing a Go
// helper once or twice a command, costs more than all those calls together
// (start of the Go runtime, its threads, two passes of exec). So the service
// re-executes itself once, and that process does nothing but wait for a
// [Program], fork, and let the child walk through the program with raw system
// calls only: no allocation, no stack growth, no scheduler. The child stays
// as process 1 of its sandbox and starts the command as its own child.
//
// The package depends neither on what a sandbox is nor on its rules: those
// are in the program, written by package sandbox.
//
// # Why it runs from init
//
// The service's binary links engines whose package initialisation is slow and
// large. Go initialises, of the packages whose imports are ready, always the
// one with the lowest path, so a package that imports nothing but runtime,
// syscall and unsafe comes before all of those. The fork server therefore
// takes over in init, before the rest of the program has touched any memory:
// it starts in a millisecond and its page tables, which every fork copies,
// stay small. That is also why this package must not import anything else.
package forkserver
