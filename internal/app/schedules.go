package app

import (
	_ "time/tzdata" // scheduled tasks know every time zone on every machine

	"everloop/activities/background"
	"everloop/activities/tools"
	"everloop/infra/toolbox"
	"everloop/service/dagruns"
	"everloop/service/schedules"
	"everloop/service/targets"
)

// newSchedules builds the service of scheduled tasks.
func (b *backend) newSchedules(dags *dagruns.Service) (*schedules.Service, error) {
	return schedules.New(schedules.Config{
		Store:   b.store,
		Engine:  b.Runs,
		Chats:   b.chats,
		Targets: b.newTargets(dags),
		Models:  b.models,
		Agents:  b.agents,
		Network: b.settings.SandboxNetwork,
		Logger:  b.logger,
	})
}

// newTargets builds what starts the targets of scheduled tasks and triggers.
func (b *backend) newTargets(dags *dagruns.Service) *targets.Service {
	return targets.New(targets.Deps{Chats: b.chats, Agents: b.agents, DAGs: dags, Board: b.board})
}

// outcomes checks what must hold after scheduled runs.
func (b *backend) outcomes(sandbox tools.Sandbox, files toolbox.Files) *background.Outcomes {
	return &background.Outcomes{Sandbox: sandbox, Workspaces: files, Root: files.Root, Env: b.buckets.ToolEnv, Logger: b.logger}
}

// scheduleWork returns what a worker does for scheduled tasks: their activities, and the
// job that follows their Schedules.
func (b *backend) scheduleWork(
	outcomes *background.Outcomes, dags *dagruns.Service,
) (*background.Schedules, *schedules.Service, error) {
	tasks, err := b.newSchedules(dags)
	if err != nil {
		return nil, nil, err
	}

	return &background.Schedules{Tasks: tasks, Outcomes: outcomes}, tasks, nil
}
