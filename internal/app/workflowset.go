package app

// cachedWorkflows is how many runs a worker keeps in memory between their steps. Any other
// run continues by a replay of its history; more chats than this rarely run on one worker.
const cachedWorkflows = 500

// workflowSettings are about how a worker runs workflows.
type workflowSettings struct {
	Summaries string `name:"temporal-summaries" default:"descriptions" enum:"descriptions,names" env:"TEMPORAL_SUMMARIES" help:"What Temporal shows of a tool call: descriptions, which are masked and stand for the command where there is none, or names of tools alone."`
}

// summaryNames is the value of TEMPORAL_SUMMARIES that leaves the names of tools alone.
const summaryNames = "names"
