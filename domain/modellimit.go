package domain

import "time"

// ModelLimitKind is an input that a model server does not accept.
type ModelLimitKind string

// Kinds of limits. Images and tool servers are scoped to one session.
const (
	LimitField      ModelLimitKind = "field"       // a part of requests, such as response_format
	LimitImage      ModelLimitKind = "image"       // an image, by its name
	LimitToolServer ModelLimitKind = "tool_server" // the tools of a tool server
	LimitPrompt     ModelLimitKind = "prompt"      // longer prompts, which the server cuts
)

// ModelLimitFor is how long a limit is valid; then the server is tried again.
const ModelLimitFor = 24 * time.Hour

// ModelLimit is an input that the server of a model does not accept, as one of its responses
// showed.
type ModelLimit struct {
	Model     string
	SessionID SessionID // empty: applies to all sessions
	Kind      ModelLimitKind
	Subject   string // the part of requests, the image or the tool server; empty: prompts
	Digest    string // of the tools of the tool server
	Cut       PromptCut
	LearnedAt time.Time
}

// PromptCut is a prompt that a model server has cut.
type PromptCut struct {
	Reported  int64     `json:"reported_tokens" doc:"Tokens that the server reported." example:"2051"`
	Estimated int64     `json:"estimated_tokens" doc:"Estimated tokens of the whole prompt." example:"23560"`
	At        time.Time `json:"at" doc:"When the server answered."`
}
