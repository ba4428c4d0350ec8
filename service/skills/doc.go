// Package skills manages the skills of the agent: those that come with the service,
// those that its operator put next to it, those that users install from the skill
// registry, and those in a session's workspace. It decides which of them a session
// has and places their packages where the session's tools can read them. It must not
// know transports, chats, or how skills are described to the model.
//
// Below its directory (DATA_DIR/agent_env/skills):
//
//	<name>/             a package for all users, put there by the operator
//	.packages/<digest>/ installed packages and snapshots, never changed
//
// In a workspace:
//
//	.skills/<name>/          packages of this session: uploaded, installed, or written by the agent
//	.everloop/skills/<name>/ copies of other packages that the session has used
//
// Where several have one name, the session's own comes first, then the snapshot
// of its primary skill, then what its owner installed, then the operator's, then
// what came with the service.
package skills

// Directories of a workspace that hold packages.
const (
	SessionDir = ".skills"
	copiesDir  = ".everloop/skills"
)
