// Package workspace accesses the files of sessions from outside the sandbox: for the REST API,
// the file tools and the snapshots (docs/files.md). No other package may access them.
//
// A command in the sandbox can change the tree at any moment, also maliciously: it can replace a
// directory by a link to /etc between a check and its use, or a file by a pipe. So this package
// never checks a path and then uses it. Every access starts at a descriptor of the workspace's
// root, and the kernel confines the lookup (openat2 with RESOLVE_BENEATH); the last name of a
// written, removed or renamed path is never followed; only files that fstat on an O_PATH
// descriptor reported as regular are opened.
//
// Files are written in a staging directory, which commands cannot access, and renamed into place
// when they are complete. Conditional writers of the service (If-Match) are serialised by locks;
// a concurrent write of a command is detected after the exchange, and wins.
//
// Links are followed when they stay inside the workspace. An absolute link always counts as
// leaving, even /workspace/…, which is a path in the sandbox only.
//
// The package depends on directories, owners and files. It must not depend on session rows,
// limits of the API, or permissions.
package workspace
