package domain

// ComputeReset is the result of resetting a user's compute environment.
type ComputeReset struct {
	RemovedContainers int  `json:"removed_containers" doc:"Commands in the background that were ended." example:"0"`
	RemovedVolume     bool `json:"removed_volume" doc:"Always false: sandboxes keep nothing outside of workspaces, which stay."`
	ClearedMemo       int  `json:"cleared_memo" doc:"Files that the agents have to read again before they edit them." example:"0"`
}

// ComputeUpgrade reports whether a user's compute environment is older than the one that the
// service would create now.
type ComputeUpgrade struct {
	UpgradeAvailable bool   `json:"upgrade_available" doc:"Whether it is outdated."`
	Reason           string `json:"reason" doc:"The reason." example:"the environment is up to date"`
	CurrentVersion   string `json:"current_version" doc:"The installed version." example:"2611.0.0"`
	TargetVersion    string `json:"target_version" doc:"The available version." example:"2611.0.0"`
}

// ComputeWork is the running work in a user's sandboxes: chats, and background commands.
type ComputeWork struct {
	Chats int
	Tasks []BackgroundTask
}
