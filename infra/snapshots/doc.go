// Package snapshots stores snapshots of a session's workspace in S3, so that files can be
// restored with their conversation (docs/history.md).
//
// A snapshot is a manifest: the paths of the workspace with their types, modes and the hashes of
// their contents. Contents are stored once per session: small files together in packs, large ones
// in chunks of a fixed size. A manifest is written last, after all its objects were acknowledged,
// so a failure never leaves dangling references. The id of a snapshot contains the session's id
// and the hash of its tree: equal trees have equal ids.
//
//	snapshots/<session>/manifests/<id>   head of a manifest: its parts
//	snapshots/<session>/parts/<hash>     a run of a manifest's entries
//	snapshots/<session>/packs/<hash>     zstd frames with small files
//	snapshots/<session>/chunks/<hash>    8 MiB of a large file, zstd
//
// Most snapshots change little: then the head contains the new parts and small files itself, and
// is the only stored object (compact.go).
//
// The workspace belongs to untrusted code that may run at the same time. So every access starts
// at a descriptor of its root, and the kernel rejects links (openat2); only files that fstat on
// an O_PATH descriptor reported as regular are opened.
//
// Not stored: the service's own directory (.everloop), temporary files of the service, sockets,
// pipes and devices, owners, times of directories, extended attributes, and hard links between
// files.
//
// The package depends on directories and objects. It must not depend on session rows, checkpoints
// of conversations, or permissions.
package snapshots
