// Package workspace is the only way to the files of sessions from outside the
// sandbox: for the REST interface, the file tools and the snapshots
// (docs/files.md).
//
// A command in the sandbox may change the tree at any moment, also with intent:
// swap a directory for a link to /etc between a check and its use, or put a
// pipe where a file was. So nothing here checks a path and then uses it. Every
// access starts at a descriptor of the workspace's root and lets the kernel
// hold the rule (openat2 with RESOLVE_BENEATH); the last name of whatever is
// written, removed or renamed is never followed; and only what fstat on an
// O_PATH descriptor showed to be a regular file is ever opened.
//
// What is written is made next to the workspaces, where no command meets it, and
// moved to its place when it is whole. Writers of the service who ask for a version
// (ETag) are ordered by locks; a command that writes in between is noticed after
// the exchange, and has its way.
//
// Links inside a workspace are followed when they stay inside. An absolute link
// counts as leaving, even to /workspace/…, which is a path of the sandbox only.
//
// The package knows directories, owners and files. It must not know sessions'
// records, limits of interfaces, or who asks.
package workspace
