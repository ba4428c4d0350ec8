package main

import (
	"everloop/activities"
	"everloop/infra/toolbox"
)

// taskDesk starts, shows and stops background tasks, for the API and for tools.
func (b *backend) taskDesk() *activities.TaskDesk {
	return &activities.TaskDesk{
		Records: b.journal, Runs: b.runs, Bus: b.signals, Workspaces: toolbox.Files{Store: b.workspace}, Logger: b.logger,
	}
}
