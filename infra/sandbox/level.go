package sandbox

import "fmt"

// Level is how strongly commands are confined.
type Level int

// Levels, weakest first.
const (
	// Unconfined has only rlimits and a time limit.
	Unconfined Level = 0
	// Landlocked confines files, signals and sockets by Landlock and a system
	// call filter. Command lines of other processes stay visible, and sockets
	// in the file system that anybody may write to can be connected to.
	Landlocked Level = 1
	// Namespaced gives a command its own view of files, processes, network and
	// users; nothing of the host can be named in it but /usr and the workspace.
	Namespaced Level = 2
)

// String names the level for logs.
func (l Level) String() string {
	switch l {
	case Unconfined:
		return "0 (none)"
	case Landlocked:
		return "1 (landlock)"
	case Namespaced:
		return "2 (namespaces)"
	}

	return fmt.Sprintf("Level(%d)", int(l))
}
