package dialect

import (
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/tidwall/gjson"

	"everloop/internal/modelmembers"
)

// Responses returns the dialect of OpenAI's Responses interface; id is the id of the request,
// made its time.
func Responses(id string, made time.Time) Dialect {
	return &responses{id: id, made: made.Unix()}
}

// responses is OpenAI's Responses interface, of one request.
type responses struct {
	id    string
	made  int64        // Unix time
	asked gjson.Result // the request, some of whose fields the response repeats
}

func (p *responses) Request(text []byte) (Translation, *Invalid) {
	p.asked = gjson.ParseBytes(text)
	return responseToChat(text)
}

func (p *responses) Stream(of Answered, out io.Writer) Stream {
	return &responseStream{out: out, of: p, answered: of, members: modelmembers.Members{}}
}

func (p *responses) Refusal(status int, text []byte) any {
	message, code := reason(text)
	if message == "" {
		message = "the source has status " + strconv.Itoa(status)
	}

	kind := gjson.GetBytes(text, "error.type").String()
	if kind == "" {
		kind = "server_error"
		if status < http.StatusInternalServerError {
			kind = "invalid_request_error"
		}
	}

	return map[string]any{"error": map[string]any{"message": message, "type": kind, "code": code, "param": nil}}
}

// response is the object that answers a request.
type response struct {
	ID           string         `json:"id"`
	Object       string         `json:"object"`
	Created      int64          `json:"created_at"`
	Status       string         `json:"status"`
	Error        *responseFault `json:"error"`
	Incomplete   any            `json:"incomplete_details"`
	Instructions any            `json:"instructions"`
	MaxOutput    any            `json:"max_output_tokens"`
	Model        string         `json:"model"`
	Output       []any          `json:"output"`
	Parallel     any            `json:"parallel_tool_calls"`
	Previous     any            `json:"previous_response_id"`
	Reasoning    any            `json:"reasoning"`
	Store        bool           `json:"store"`
	Temperature  any            `json:"temperature"`
	Text         any            `json:"text"`
	ToolChoice   any            `json:"tool_choice"`
	Tools        any            `json:"tools"`
	TopP         any            `json:"top_p"`
	Truncation   string         `json:"truncation"`
	Usage        *responseUsage `json:"usage"`
	User         any            `json:"user"`
	Metadata     any            `json:"metadata"`
}

// responseFault describes why a response failed.
type responseFault struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

// responseUsage is the usage of a response. Cached tokens are part of the input, reasoning
// tokens part of the output.
type responseUsage struct {
	Input         int64         `json:"input_tokens"`
	InputDetails  inputDetails  `json:"input_tokens_details"`
	Output        int64         `json:"output_tokens"`
	OutputDetails outputDetails `json:"output_tokens_details"`
	Total         int64         `json:"total_tokens"`
}

type inputDetails struct {
	Cached int64 `json:"cached_tokens"`
}

type outputDetails struct {
	Reasoning int64 `json:"reasoning_tokens"`
}

// started returns a response without output.
func (p *responses) started(of Answered) response {
	or := func(field string, otherwise any) any {
		if value := p.asked.Get(field); value.Exists() && value.Type != gjson.Null {
			return value.Value()
		}

		return otherwise
	}

	return response{
		ID:           "resp_" + p.id,
		Object:       "response",
		Created:      p.made,
		Status:       "in_progress",
		Model:        of.Model,
		Output:       []any{},
		Instructions: or("instructions", nil),
		MaxOutput:    or("max_output_tokens", nil),
		Parallel:     or("parallel_tool_calls", true),
		Reasoning:    or("reasoning", map[string]any{"effort": nil, "summary": nil}),
		Temperature:  or("temperature", nil),
		TopP:         or("top_p", nil),
		Truncation:   "disabled",
		Text:         or("text", map[string]any{"format": map[string]string{"type": "text"}}),
		ToolChoice: or(
			"tool_choice",
			"auto",
		),
		Tools:    or("tools", []any{}),
		User:     or("user", nil),
		Metadata: or("metadata", map[string]any{}),
	}
}

// end sets the status of a response from its choice's finish reason.
func (r *response) end(of Answered, choice, usage gjson.Result) {
	r.Status = "completed"

	switch choice.Get("finish_reason").String() {
	case "length":
		r.Status, r.Incomplete = "incomplete", map[string]string{"reason": "max_output_tokens"}
	case "content_filter":
		r.Status, r.Incomplete = "incomplete", map[string]string{"reason": "content_filter"}
	}

	r.Usage = of.responseUsage(usage)
}

// responseUsage returns the usage that the source reports, else the gateway's estimate.
func (a Answered) responseUsage(reported gjson.Result) *responseUsage {
	sum := a.Tokens()
	within := func(field string, most int64) int64 { return min(max(reported.Get(field).Int(), 0), most) }

	return &responseUsage{
		Input: sum.Prompt, InputDetails: inputDetails{within("prompt_tokens_details.cached_tokens", sum.Prompt)},
		Output: sum.Completion, OutputDetails: outputDetails{within("completion_tokens_details.reasoning_tokens", sum.Completion)},
		Total: sum.Prompt + sum.Completion,
	}
}
