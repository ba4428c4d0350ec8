package domain

// ComputeReset is what came of making a user's compute environment anew.
type ComputeReset struct {
	RemovedContainers int  `json:"removed_containers" doc:"Commands in the background that were ended."`
	RemovedVolume     bool `json:"removed_volume" doc:"Always false: sandboxes keep nothing outside of workspaces, which stay."`
	ClearedMemo       int  `json:"cleared_memo" doc:"Files that the agents have to read again before they edit them."`
}

// ComputeUpgrade says whether a user's compute environment is behind the one that
// the service would make now.
type ComputeUpgrade struct {
	UpgradeAvailable bool   `json:"upgrade_available"`
	Reason           string `json:"reason"`
	CurrentVersion   string `json:"current_version"`
	TargetVersion    string `json:"target_version"`
}

// ComputeWork is what runs in the sandboxes of a user: chats, and commands in the
// background.
type ComputeWork struct {
	Chats int
	Tasks []BackgroundTask
}
