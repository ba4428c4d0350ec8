// Package dag contains the document of a multi-agent DAG: its nodes and edges, the expressions
// that refer to outputs, its validation, and the difference of two versions. All functions are
// pure; domain/dagrun runs a DAG.
package dag

import (
	"cmp"
	"encoding/json"
	"slices"

	"everloop/domain/document"
)

// Bounds of one graph, which the tags of its fields repeat.
const (
	MaxNodes = 1000
	MaxEdges = 5000
	MaxCode  = 64 << 10 // bytes of the script of a code node

	MaxIterations = 1000 // of a loop
)

// NodeType is the type of a node.
type NodeType string

// The types of nodes.
const (
	Start     NodeType = "start"
	End       NodeType = "end"
	Agent     NodeType = "agent"
	Tool      NodeType = "tool"
	Condition NodeType = "condition"
	Map       NodeType = "map"
	Join      NodeType = "join"
	Human     NodeType = "human"
	Subflow   NodeType = "subflow"
	Code      NodeType = "code"
	Wait      NodeType = "wait"
	Loop      NodeType = "loop"
)

// Repeats reports whether nodes of the type do their work in items: a map for each of a list, a
// loop one after another.
func (t NodeType) Repeats() bool { return t == Map || t == Loop }

// Outcomes of loops.
const (
	LoopConditionMet = "condition_met"
	LoopMaxReached   = "max_reached"
)

// The effect of a failed node on the run (on_error).
const (
	ErrorFails    = "fail"
	ErrorIgnored  = "continue"
	ErrorIsRouted = "route" // to the edges of the kind error
)

// Policies of approvals.
const (
	ApprovalRequired = "required" // a person must agree before the node starts
	ApprovalNone     = "none"
)

// EdgeError is the kind of an edge that is taken when its source fails.
const EdgeError = "error"

// Graph is the DAG of a production solution. Steps are a flat view of the nodes; see Complete.
// Fields that it does not declare, such as fields that drawing libraries add, are ignored.
type Graph struct {
	Steps    []Step             `json:"steps" required:"false" nullable:"true" maxItems:"1000" doc:"The nodes as a list of steps; the service adds those that are missing."`
	Nodes    []Node             `json:"nodes" required:"false" nullable:"true" maxItems:"1000" doc:"The nodes."`
	Edges    []Edge             `json:"edges" required:"false" nullable:"true" maxItems:"5000" doc:"The edges."`
	Viewport *document.Viewport `json:"viewport,omitempty" doc:"The part of the drawing that is shown."`
}

// Step is the position of a node in a flat list.
type Step struct {
	ID     string `json:"id,omitempty" maxLength:"128" doc:"Its id; left out: the service gives one." example:"step-review"`
	NodeID string `json:"node_id" pattern:"^[A-Za-z0-9_-]{1,64}$" patternDescription:"1 to 64 of A-Z, a-z, 0-9, _ and -" doc:"The node." example:"review"`
	Order  int    `json:"order,omitempty" minimum:"0" maximum:"1000000" doc:"Its place, from 1." example:"1"`
	Title  string `json:"title,omitempty" maxLength:"200" doc:"The title; left out: the name of the node." example:"Review"`
}

// Node is one node of the graph.
type Node struct {
	ID           string                     `json:"id" pattern:"^[A-Za-z0-9_-]{1,64}$" patternDescription:"1 to 64 of A-Z, a-z, 0-9, _ and -" doc:"Its id." example:"review"`
	Type         NodeType                   `json:"type" enum:"start,end,agent,tool,condition,map,join,human,subflow,code,wait,loop" doc:"The type."`
	Name         string                     `json:"name,omitempty" maxLength:"200" doc:"Its name." example:"Review"`
	Position     *document.Position         `json:"position,omitempty" doc:"Its place on the drawing."`
	Config       *Config                    `json:"config,omitempty" doc:"What it does, by its type."`
	Inputs       map[string]json.RawMessage `json:"inputs,omitempty" doc:"Named values: literals, or text with references to outputs." example:"{\"items\": \"{{input.files}}\"}"`
	OutputSchema map[string]json.RawMessage `json:"output_schema,omitempty" doc:"The JSON Schema of its output. Of a start node: of the input of the run." example:"{\"type\": \"object\"}"`
	Retry        *Retry                     `json:"retry,omitempty" doc:"How often it is tried; left out: once."`
	TimeoutS     *int                       `json:"timeout_s,omitempty" minimum:"1" maximum:"31536000" doc:"Seconds that one attempt may take." example:"600"`
	HeartbeatS   *int                       `json:"heartbeat_s,omitempty" minimum:"1" maximum:"86400" doc:"Of agents, tools, code and their maps: seconds that one attempt may go on without an event of its session. Left out: no limit." example:"60"`
	OnError      string                     `json:"on_error,omitempty" enum:"fail,continue,route" doc:"What follows when its last attempt fails; left out: fail."`
	Budget       *NodeBudget                `json:"budget,omitempty" doc:"What it may use up."`
	Concurrency  *int                       `json:"concurrency,omitempty" minimum:"1" maximum:"1000" doc:"Of a map: how many items are worked on at once." example:"8"`
	Idempotency  string                     `json:"idempotency,omitempty" enum:"none,by_input" doc:"Whether a finished output is used again for the same input."`
	Approval     *Approval                  `json:"approval,omitempty" doc:"Whether a person has to agree before it begins."`
	Outputs      *Outputs                   `json:"outputs,omitempty" doc:"Of agents, tools, code and their maps: the files that it passes on."`
	InputsFiles  []InputFiles               `json:"inputs_files,omitempty" nullable:"true" maxItems:"50" doc:"Of agents, tools, code and their maps: output files of earlier nodes that are put into its workspace before it begins."`
	Workspace    string                     `json:"workspace,omitempty" maxLength:"64" doc:"Of agents, tools and code: the earlier node in whose workspace it works. All nodes of a workspace come one after another." example:"checkout"`
}

// Outputs names what a node passes on in addition to its output.
type Outputs struct {
	Files []string `json:"files,omitzero" nullable:"true" maxItems:"50" doc:"Files of its workspace, as patterns; the name of a directory means all files below it. A name without wildcards must exist when the node ends." example:"[\"report/**\"]"`
}

// InputFiles are output files of an earlier node that a node is given.
type InputFiles struct {
	From string `json:"from" maxLength:"64" doc:"The earlier node, which names output files." example:"draft"`
	Path string `json:"path,omitempty" maxLength:"512" doc:"Which of its files: a pattern, a file, or a directory; left out: all." example:"report/**"`
	To   string `json:"to,omitempty" maxLength:"512" doc:"Where they are put: of one file its new name, or with a slash at its end its directory; of a directory or a pattern the directory that takes the place of the part before the first wildcard. Left out: the same place. The files of an item of a map are below its number." example:"in"`
}

// Config contains the parameters of a node. Its type determines which fields apply.
type Config struct {
	AgentID        string                     `json:"agent_id,omitempty" maxLength:"128" doc:"The agent_id of a production agent." example:"reviewer"`
	Skill          string                     `json:"skill,omitempty" maxLength:"255" doc:"The skill that the agent has." example:"data-table-report"`
	Prompt         string                     `json:"prompt,omitempty" maxLength:"200000" doc:"The prompt of an agent, or the question of a human node." example:"Review {{nodes.draft.output.text}}"`
	Model          string                     `json:"model,omitempty" maxLength:"200" doc:"The model." example:"m-1"`
	Tool           string                     `json:"tool,omitempty" maxLength:"128" doc:"The tool." example:"Bash"`
	Arguments      map[string]json.RawMessage `json:"arguments,omitempty" doc:"Arguments of the tool: literals, or text with references." example:"{\"command\": \"make test\"}"`
	Mode           string                     `json:"mode,omitempty" enum:"planning,executing" doc:"The mode of the session of an agent."`
	Options        []string                   `json:"options,omitzero" nullable:"true" maxItems:"20" doc:"The answers that a human node offers."`
	ProdSolutionID string                     `json:"prod_solution_id,omitempty" maxLength:"128" doc:"Of a subflow: the production solution whose DAG it runs."`
	Code           string                     `json:"code,omitempty" maxLength:"200000" doc:"Of a code node: the script, as for bash; at most 65,536 bytes. Its inputs are the JSON in the variable INPUTS." example:"echo \"$INPUTS\" | jq .total"`
	WaitS          int                        `json:"wait_s,omitempty" minimum:"0" maximum:"31536000" doc:"Of a wait node: seconds." example:"60"`
	Condition      string                     `json:"condition,omitempty" maxLength:"4000" doc:"Of a loop: it is evaluated after each iteration, and ends the loop when it holds." example:"{{loop.output.score}} >= 7"`
	Max            int                        `json:"max,omitempty" minimum:"0" maximum:"1000" doc:"Of a loop: the iterations after which it ends in any case." example:"5"`
}

// Retry configures how often and when a node is retried.
type Retry struct {
	MaxAttempts      int      `json:"max_attempts,omitempty" minimum:"0" maximum:"1000" doc:"Attempts in all; 0 would be without end and is not valid." example:"3"`
	InitialIntervalS float64  `json:"initial_interval_s,omitempty" minimum:"0" maximum:"86400" doc:"Seconds before the second attempt." example:"1"`
	Backoff          float64  `json:"backoff,omitempty" minimum:"0" maximum:"100" doc:"Factor from one pause to the next." example:"2"`
	MaxIntervalS     float64  `json:"max_interval_s,omitempty" minimum:"0" maximum:"604800" doc:"The longest pause in seconds." example:"60"`
	NonRetryable     []string `json:"non_retryable,omitzero" nullable:"true" maxItems:"50" doc:"Error codes after which it is not tried again."`
}

// NodeBudget bounds the usage of a node.
type NodeBudget struct {
	MaxTokens *int64   `json:"max_tokens,omitempty" minimum:"1" doc:"Tokens." example:"100000"`
	MaxCost   *float64 `json:"max_cost,omitempty" minimum:"0" doc:"Cost, in the currency of the model list." example:"1.5"`
}

// Approval requires consent before a node starts.
type Approval struct {
	Policy     string      `json:"policy" minLength:"1" maxLength:"64" doc:"The policy: required, or none." example:"required"`
	Escalation *Escalation `json:"escalation,omitempty" doc:"What becomes of a question that no user answers: of the approval, or, without one, of a human node. Left out: it waits."`
}

// Answers to the question whether a node may start.
const (
	AnswerApprove = "Approve"
	AnswerReject  = "Reject"
)

// Escalation configures how a node's question that no user answers is handled.
type Escalation struct {
	TimeoutS       int      `json:"timeout_s,omitempty" minimum:"0" maximum:"2592000" doc:"Seconds after which default_answer answers; left out: never." example:"86400"`
	DefaultAnswer  string   `json:"default_answer,omitempty" maxLength:"2000" doc:"What answers then: Approve, or Reject (left out). A human node needs it; where it offers options, it is one of them." example:"Reject"`
	EscalateAfterS int      `json:"escalate_after_s,omitempty" minimum:"0" maximum:"2592000" doc:"Seconds after which webhooks are sent question.escalated and user_id may answer; left out: never." example:"3600"`
	Webhooks       []string `json:"webhooks,omitzero" nullable:"true" maxItems:"20" doc:"Ids of webhooks of the owner that are sent it too, whatever their events are."`
	UserID         string   `json:"user_id,omitempty" maxLength:"128" doc:"Who may answer then besides the owner: a member of one of the owner's workspaces." example:"01a1fd9a-e0d1-7c52-b4f3-7a1d0c9e8b21"`
}

// UnmarshalJSON parses a string, which earlier stored graphs contain and which has no effect,
// as an empty escalation.
func (e *Escalation) UnmarshalJSON(data []byte) error {
	if len(data) > 0 && data[0] == '"' {
		return nil
	}

	type fields Escalation

	return json.Unmarshal(data, (*fields)(e))
}

// Edge connects one node to another.
type Edge struct {
	ID           string `json:"id" minLength:"1" maxLength:"200" doc:"Its id, which nothing refers to." example:"e1"`
	Source       string `json:"source" minLength:"1" maxLength:"64" doc:"The node that it leaves." example:"draft"`
	Target       string `json:"target" minLength:"1" maxLength:"64" doc:"The node that it leads to." example:"review"`
	SourceHandle string `json:"source_handle,omitempty" maxLength:"64" doc:"Of a human node: the answer with which the edge is taken." example:"accepted"`
	Condition    string `json:"condition,omitempty" maxLength:"4000" doc:"When it is taken; left out: always, or when no other is." example:"{{nodes.review.output.score}} >= 7"`
	Label        string `json:"label,omitempty" maxLength:"200" doc:"The label." example:"good"`
	Kind         string `json:"kind,omitempty" enum:"control,data,error" doc:"The kind; left out: control."`
}

// Encode returns the canonical form without null lists.
func (g Graph) Encode() ([]byte, error) {
	return document.Encode(g.withLists(document.NoEmpty))
}

// Listed returns the graph for a response, in which every list of a node is present: the
// options of a human node, the codes of a retry, the webhooks of an escalation.
func (g Graph) Listed() Graph { return g.withLists(document.List) }

// withLists returns the graph with form applied to the lists of its nodes.
func (g Graph) withLists(form func([]string) []string) Graph {
	g.Steps, g.Nodes, g.Edges = append([]Step{}, g.Steps...), append([]Node{}, g.Nodes...), append([]Edge{}, g.Edges...)

	for i := range g.Nodes {
		n := &g.Nodes[i]
		if n.Config != nil && (n.Type == Human || n.Config.Options != nil) {
			config := *n.Config
			config.Options, n.Config = form(config.Options), &config
		}

		if n.Outputs != nil {
			n.Outputs = &Outputs{Files: form(n.Outputs.Files)}
		}

		if n.Retry != nil {
			retry := *n.Retry
			retry.NonRetryable, n.Retry = form(retry.NonRetryable), &retry
		}

		if n.Approval != nil && n.Approval.Escalation != nil {
			approval, escalation := *n.Approval, *n.Approval.Escalation
			escalation.Webhooks = form(escalation.Webhooks)
			approval.Escalation, n.Approval = &escalation, &approval
		}
	}

	return g
}

// Counts returns the numbers of nodes and edges.
func (g Graph) Counts() (nodes, edges int) { return len(g.Nodes), len(g.Edges) }

// Complete returns the graph with a viewport and one step for each node: steps of existing
// nodes retain their order and title, other steps are removed, and missing ones follow in the
// order in which the nodes can run.
func (g Graph) Complete() Graph {
	if g.Viewport == nil {
		g.Viewport = &document.Viewport{Zoom: 1}
	}

	given := slices.Clone(g.Steps)
	slices.SortStableFunc(given, func(a, b Step) int { return cmp.Compare(a.Order, b.Order) })

	names := map[string]string{}
	for _, n := range g.Nodes {
		names[n.ID] = cmp.Or(n.Name, n.ID)
	}

	g.Steps = nil
	placed, ids := map[string]bool{}, map[string]bool{}

	place := func(s Step) {
		if _, exists := names[s.NodeID]; !exists || placed[s.NodeID] {
			return
		}

		if s.ID == "" || ids[s.ID] {
			s.ID = "step-" + s.NodeID
		}

		placed[s.NodeID], ids[s.ID] = true, true
		s.Order, s.Title = len(g.Steps)+1, cmp.Or(s.Title, names[s.NodeID])
		g.Steps = append(g.Steps, s)
	}
	for _, s := range given {
		place(s)
	}

	for _, id := range newLinks(g).order() {
		place(Step{NodeID: id})
	}

	return g
}

// Watched reports whether the node works in its own sessions, whose events are its activity.
func (n Node) Watched() bool {
	switch n.Type {
	case Agent, Tool, Code:
		return true
	case Map, Loop:
		return n.Config == nil || n.Config.ProdSolutionID == ""
	default:
		return false
	}
}

// GivesFiles reports whether the node names output files.
func (n Node) GivesFiles() bool { return n.Outputs != nil && len(n.Outputs.Files) > 0 }

// TakesFiles reports whether files are put into the workspace of the node before it starts.
func (n Node) TakesFiles() bool { return len(n.InputsFiles) > 0 || n.Workspace != "" }

// Order returns the ids of the nodes in topological order.
func (g Graph) Order() []string { return newLinks(g).order() }

// After returns a node and all nodes reachable from it; nil: the node does not exist.
func (g Graph) After(id string) map[string]bool {
	l := newLinks(g)

	from, known := l.number[id]
	if !known {
		return nil
	}

	after := map[string]bool{}

	for i, reached := range l.reach(from) {
		if reached {
			after[l.ids[i]] = true
		}
	}

	return after
}

// Difference contains the differences between two graphs.
type Difference struct {
	Nodes document.Difference[Node] `json:"nodes" doc:"The nodes."`
	Edges document.Difference[Edge] `json:"edges" doc:"The edges."`
}

// Compare returns the differences between two graphs.
func Compare(from, to Graph) (d Difference, err error) {
	if d.Nodes, err = document.Compare(from.Nodes, to.Nodes, func(n Node) string { return n.ID }); err != nil {
		return d, err
	}

	d.Edges, err = document.Compare(from.Edges, to.Edges, func(e Edge) string { return e.ID })

	return d, err
}
