package domain

import (
	"encoding/json"
	"fmt"
	"time"
)

// Prompt is one request to a model, independent of any provider.
type Prompt struct {
	Model    string
	Messages []PromptMessage
	Tools    []ToolSpec
	Schema   json.RawMessage // JSON Schema of a constrained answer; nil: free text
}

// PromptMessage is one message of a prompt. Calls belong to assistant
// messages, ToolCallID to tool messages.
type PromptMessage struct {
	Role       string // system, user, assistant or tool
	Parts      []ContentPart
	Calls      []RequestedCall
	ToolCallID string
}

// ToolSpec describes a tool to the model.
type ToolSpec struct {
	Name        string
	Description string
	Parameters  json.RawMessage // JSON Schema of the arguments
}

// RequestedCall is a tool call as the model asked for it. Arguments is JSON
// text as the model wrote it: it may be malformed.
type RequestedCall struct {
	ID        string
	Name      string
	Arguments string
}

// DeltaKind says what a piece of a streamed answer belongs to.
type DeltaKind int

// The two kinds of text that stream.
const (
	DeltaText DeltaKind = iota
	DeltaThinking
)

// Delta is one piece of streamed text, in order.
type Delta struct {
	Kind DeltaKind
	Text string
}

// Reply is a finished model answer.
type Reply struct {
	Text         string
	Thinking     string
	Calls        []RequestedCall
	Usage        Usage
	FinishReason string // stop, tool_calls, length, content_filter
	Model        string // the model that answered
}

// Model is one entry of the model list (shapes.md section 8, "Config models
// item").
type Model struct {
	ID            string
	Name          string
	ContextWindow int64
	MaxOutput     int64 // tokens of one answer; 0: not known
	Modalities    []string
	Supports      ModelSupport
	Price         *Price // nil: not known, and counted as nothing
}

// ModelSupport is what a model can do besides text. A server that does not say
// is taken to serve a current model: the agent needs tools, and a call that asks
// for too much says so itself.
type ModelSupport struct {
	Tools      bool `json:"tools"`
	Thinking   bool `json:"thinking"`
	JSONSchema bool `json:"json_schema"`
}

// Price is what a model costs for a million tokens.
type Price struct {
	Input  float64 `json:"input"`
	Output float64 `json:"output"`
}

// Of gives the cost of a usage; a nil price costs nothing.
func (p *Price) Of(u Usage) float64 {
	if p == nil {
		return 0
	}
	return (p.Input*float64(u.InputTokens) + p.Output*float64(u.OutputTokens)) / 1e6
}

// ModelFault sorts what can go wrong with a model call.
type ModelFault string

// Faults of a model call. Only transient and rate_limited are tried again as
// they are; context_overflow is tried once more after a compaction.
const (
	FaultTransient       ModelFault = "transient"        // network, cut stream, 408, 409, 5xx
	FaultRateLimited     ModelFault = "rate_limited"     // 429
	FaultContextOverflow ModelFault = "context_overflow" // 400 with a context-length code
	FaultUnknownModel    ModelFault = "unknown_model"    // 404 or model_not_found
	FaultRefused         ModelFault = "refused"          // 400, 401, 403, 422 and other final answers
)

// ModelError is a failed model call. Its message never carries a key.
type ModelError struct {
	Fault      ModelFault
	Status     int // HTTP status, 0 when there was none
	Message    string
	RetryAfter time.Duration // 0 when the server said nothing
}

func (e *ModelError) Error() string {
	if e.Status == 0 {
		return fmt.Sprintf("model call failed (%s): %s", e.Fault, e.Message)
	}
	return fmt.Sprintf("model call failed (%s, status %d): %s", e.Fault, e.Status, e.Message)
}

// Retryable reports whether the same call may succeed later.
func (e *ModelError) Retryable() bool {
	return e.Fault == FaultTransient || e.Fault == FaultRateLimited
}
