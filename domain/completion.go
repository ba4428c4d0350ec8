package domain

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"
)

// Prompt is one request to a model, independent of any provider.
type Prompt struct {
	Model    string
	Messages []PromptMessage
	Tools    []ToolSpec
	Schema   json.RawMessage // JSON Schema of a constrained answer; nil: free text
}

// PromptMessage is one message of a prompt. Calls and reasoning belong to
// assistant messages, ToolCallID to tool messages.
type PromptMessage struct {
	Role       string // system, user, assistant or tool
	Parts      []ContentPart
	Calls      []PromptCall
	ToolCallID string // the ID of one of the calls before

	Reasoning      string // the model's reasoning text
	ReasoningField string // ReasoningContent or Reasoning, as the server sent it

	ServerMembers string // members that the model server sent and needs back, as a JSON object; empty: none
}

// HasServerMembers reports whether the message or a call of it has ServerMembers.
func (m PromptMessage) HasServerMembers() bool {
	return m.ServerMembers != "" || slices.ContainsFunc(m.Calls, func(c PromptCall) bool { return c.ServerMembers != "" })
}

// PromptCall is an earlier tool call in a prompt.
type PromptCall struct {
	ID        string // Everloop's own: it distinguishes the calls of a prompt
	ServerID  string // the model server's id of the call; empty: none was sent
	Name      string
	Arguments string

	ServerMembers string // see PromptMessage
}

// ToolSpec describes a tool to the model.
type ToolSpec struct {
	Name        string
	Description string
	Parameters  json.RawMessage // JSON Schema of the arguments
}

// RequestedCall is a tool call as the model requested it. ID is the server's: it may be empty,
// or equal that of another call. Arguments is the model's JSON text and may be malformed. Name
// is empty where the server sent none. ServerMembers are as in PromptMessage.
type RequestedCall struct {
	ID        string
	Name      string
	Arguments string

	ServerMembers string
}

// DeltaKind is the part of the answer that a streamed piece belongs to.
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
	FinishReason string // stop, tool_calls, ReplyLength, ReplyFiltered
	Model        string // the model that answered

	ReasoningField string // in which the server sent Thinking; empty: there is none

	ServerMembers string // see PromptMessage
}

// Model is one entry of the model list (docs/rest.md#service).
type Model struct {
	ID            string
	Name          string
	ContextWindow int64
	MaxOutput     int64    // tokens of one answer; 0: unknown
	Modalities    []string // of its input, as its server lists them; empty: unknown
	Supports      ModelSupport
	Price         *Price // nil: unknown, and its tokens count as uncosted

	ReasoningHistory ReasoningHistory

	PromptCut *PromptCut // the last prompt that its server cut; nil: none
}

// TakesImages reports whether the model may be sent images. A model with unknown modalities is
// tried: a rejection costs one call.
func (m Model) TakesImages() bool {
	return len(m.Modalities) == 0 || slices.Contains(m.Modalities, "image")
}

// ReasoningHistory selects the earlier reasoning of a model that is sent back to it.
type ReasoningHistory string

// The reasoning of the turns since the last user message, of all turns, or none.
const (
	ReasoningToolLoop ReasoningHistory = "tool_loop"
	ReasoningAll      ReasoningHistory = "all"
	ReasoningNone     ReasoningHistory = "none"
)

// Known reports whether the value is one of the three.
func (h ReasoningHistory) Known() bool {
	return h == ReasoningToolLoop || h == ReasoningAll || h == ReasoningNone
}

// Finish reasons of replies that are incomplete.
const (
	ReplyLength   = "length"         // the reply reached the limit of its length
	ReplyFiltered = "content_filter" // the server's filter ended the reply
)

// ModelSupport lists the features of a model in addition to text. A server that does not list
// features is assumed to serve a current model: the agent needs tools, and the server rejects
// calls that need a missing feature.
type ModelSupport struct {
	Tools      bool `json:"tools" doc:"Whether it calls tools."`
	Thinking   bool `json:"thinking" doc:"Whether it produces thinking."`
	JSONSchema bool `json:"json_schema" doc:"Whether responses can be constrained by a JSON Schema."`
}

// ModelFault is the class of a failed model call.
type ModelFault string

// Faults of a model call. Only transient and rate_limited are retried unchanged;
// context_overflow is retried once after a compaction.
const (
	FaultTransient       ModelFault = "transient"        // network, cut stream, 408, 409, 5xx
	FaultRateLimited     ModelFault = "rate_limited"     // 429
	FaultContextOverflow ModelFault = "context_overflow" // 400 with a context-length code
	FaultUnknownModel    ModelFault = "unknown_model"    // 404 or model_not_found
	FaultRefused         ModelFault = "refused"          // 400, 401, 403, 422 and other final answers
	FaultQuota           ModelFault = "quota_exhausted"  // 402, or a 429 that waiting does not change
)

// ModelError is a failed model call. Its message never contains a key.
type ModelError struct {
	Fault      ModelFault
	Status     int // HTTP status, 0 when there was none
	Message    string
	Detail     string        // the field that the server names, and the response of the server behind a router
	RetryAfter time.Duration // 0 when the server sent none
}

// Words returns the full error text of the server.
func (e *ModelError) Words() string { return e.Message + " " + e.Detail }

// ModelRefusal is a model whose server has rejected the tools of a tool server.
type ModelRefusal struct {
	Server    string
	Model     string
	RefusedAt time.Time // the last time
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
