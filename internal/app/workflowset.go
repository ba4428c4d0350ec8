package app

import "errors"

// workflowSettings are about how a worker runs workflows.
type workflowSettings struct {
	CachedWorkflows int    `name:"cached-workflows" default:"500" env:"CACHED_WORKFLOWS" help:"Workflow runs that a worker keeps in memory between their steps; it replays the history of any other one that goes on."`
	Summaries       string `name:"temporal-summaries" default:"descriptions" enum:"descriptions,names" env:"TEMPORAL_SUMMARIES" help:"What Temporal shows of a tool call: descriptions, which are masked and stand for the command where there is none, or names of tools alone."`
}

// summaryNames is the value of TEMPORAL_SUMMARIES that leaves the names of tools alone.
const summaryNames = "names"

func (s workflowSettings) check() error {
	if s.CachedWorkflows < 1 {
		return errors.New("CACHED_WORKFLOWS must be at least 1")
	}

	return nil
}
