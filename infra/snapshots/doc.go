// Package snapshots keeps the states of a session's workspace in S3, so that a
// conversation can go back with its files (docs/history.md).
//
// A snapshot is a manifest: the paths of the workspace with their types, modes
// and the hashes of their contents. Contents are kept once for each session:
// small files together in packs, large ones in chunks of a fixed size. A
// manifest is written last, when everything that it names is acknowledged; so
// whatever breaks in between leaves nothing that refers to nothing. The id of a
// snapshot is made of the session's and the hash of what it holds: equal trees
// have equal ids.
//
//	snapshots/<session>/manifests/<id>   head of a manifest: its parts
//	snapshots/<session>/parts/<hash>     a run of a manifest's entries
//	snapshots/<session>/packs/<hash>     zstd frames with small files
//	snapshots/<session>/chunks/<hash>    8 MiB of a large file, zstd
//
// Most snapshots change little: then the head holds what is new of parts and small
// files itself, and is the only object that is stored (compact.go).
//
// The workspace belongs to untrusted code that may run at the same
// time. So every access starts at a descriptor of its root and lets the kernel
// hold the rule that no link is followed (openat2); only what fstat on an O_PATH
// descriptor showed to be a regular file is ever opened.
//
// Not kept are: the service's own directory (.everloop), files that are being
// written by the service, sockets, pipes and devices, owners, times of
// directories, extended attributes, and that two names are one file.
//
// The package knows directories and objects. It must not know records of
// sessions, checkpoints of conversations, or who may see what.
package snapshots
