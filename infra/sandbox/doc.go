// Package sandbox runs the commands of the agent's tools away from everything
// they must not reach: other sessions' files, the service's files, environment,
// processes and sockets, the host's network (docs/concepts.md#sandbox).
//
// By default each command has its own namespaces: process 1 of a new tree, a
// root directory that shows /usr read-only and the session's workspace at
// /workspace, a network of nothing but its own loopback interface, one user
// without capabilities, a system call filter and a control group. Where the
// host refuses namespaces there is a weaker level by Landlock; a level without
// confinement exists only by an explicit, unsafe choice. See [Level].
//
// Creating namespaces takes milliseconds, so after a session's first command the
// next sandbox is prepared ahead, blocked before it starts anything; each is
// still used for one command only.
//
// The package depends on commands, paths and limits. It must not depend on sessions,
// tools or where results go.
package sandbox
