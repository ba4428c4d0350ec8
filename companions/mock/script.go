package mock

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
)

const (
	scriptOpen = "[[script]]"

	maxSteps  = 10_000
	maxTokens = 1_000_000
	maxDelay  = 60_000 // ms
)

// Script orders the answers to the model calls that follow a user message.
type Script struct {
	Loop  *Loop  `json:"loop,omitempty"`  // precedes the steps
	Steps []Step `json:"steps,omitempty"` // step k answers the k-th call
	Echo  bool   `json:"echo,omitempty"`  // one step that returns the received request
	// Closing answers every call after the last step.
	Closing *string `json:"closing,omitempty"`
	// Sticky keeps the script active when user messages without a script follow, such as
	// steering messages.
	Sticky bool `json:"sticky,omitempty"`
	// Summary answers a request to summarize a conversation that quotes the script; the last
	// one applies. Default: a plain summary.
	Summary *Step `json:"summary,omitempty"`
	// Note is ignored. It makes equal scripts differ for fail_times, which counts equal requests.
	Note string `json:"note,omitempty"`
}

// Loop is n equal steps with one tool call each. The number of the step, from 0, replaces
// {{i}} in the call's arguments and in the text.
type Loop struct {
	N    int    `json:"n"`
	Call Call   `json:"call"`
	Text string `json:"text,omitempty"`
}

// Call is a tool call to make.
type Call struct {
	Name      string          `json:"name"`
	ID        string          `json:"id,omitempty"`        // default: random
	Arguments json.RawMessage `json:"arguments,omitempty"` // an object; default {}
	// Raw replaces the text of the arguments, for malformed arguments.
	Raw *string `json:"raw,omitempty"`
}

// Step is one answer and how to send it. A piece is one chunk of text.
type Step struct {
	Thinking string `json:"thinking,omitempty"`
	Text     string `json:"text,omitempty"`
	Tokens   int    `json:"tokens,omitempty"` // after the text: this many one-word chunks at full speed
	Calls    []Call `json:"calls,omitempty"`
	Echo     bool   `json:"echo,omitempty"` // the text is the received request

	FirstDelayMS int `json:"first_delay_ms,omitempty"` // before the response's header
	DelayMS      int `json:"delay_ms,omitempty"`       // before each piece
	Chunk        int `json:"chunk,omitempty"`          // characters of a piece; 0: words

	FinishReason string `json:"finish_reason,omitempty"` // default: stop, or tool_calls
	NoFinish     bool   `json:"no_finish,omitempty"`     // end the stream normally but without a finish reason
	NoDone       bool   `json:"no_done,omitempty"`       // end the stream without [DONE]
	Usage        *Usage `json:"usage,omitempty"`         // default: estimated

	// Hold blocks the stream after HoldAfter pieces (default 1) until the client disconnects or
	// POST /control/release.
	Hold      bool `json:"hold,omitempty"`
	HoldAfter int  `json:"hold_after,omitempty"`

	// Faults. With FailTimes only the first FailTimes equal requests fail.
	Status         int     `json:"status,omitempty"`           // reject with this HTTP status (400 to 599)
	ErrorCode      string  `json:"error_code,omitempty"`       // code of the error object
	ErrorMessage   string  `json:"error_message,omitempty"`    // its text
	RetryAfter     float64 `json:"retry_after,omitempty"`      // seconds, rounded up, with a status
	CutAfter       *int    `json:"cut_after,omitempty"`        // break the connection after this many pieces
	ErrorMidStream bool    `json:"error_mid_stream,omitempty"` // error object after CutAfter (default 1) pieces
	Malformed      bool    `json:"malformed,omitempty"`        // invalid JSON after CutAfter (default 1) pieces
	FailTimes      int     `json:"fail_times,omitempty"`       // alone it means status 503
}

// Usage is the token count that an answer reports.
type Usage struct {
	PromptTokens     int `json:"prompt_tokens"`
	CompletionTokens int `json:"completion_tokens"`
	TotalTokens      int `json:"total_tokens"`

	Details *UsageDetails `json:"prompt_tokens_details,omitempty"`
}

// UsageDetails counts the tokens of the prompt that the server read from its cache.
type UsageDetails struct {
	CachedTokens int `json:"cached_tokens"`
}

// findScript returns the active script and the index of its message: the script of the last
// user message, or else the last sticky script.
func findScript(messages []chatMessage) (script *Script, at int, fault *apiError) {
	last := true

	for i := len(messages) - 1; i >= 0; i-- {
		text := string(messages[i].Content)
		if messages[i].Role != "user" || isReminder(text) {
			continue
		}

		script, err := readScript(text)
		if err != nil && last {
			return nil, 0, invalid(http.StatusBadRequest, "invalid_script", "invalid script: "+err.Error())
		}

		if script != nil && err == nil && (last || script.Sticky) {
			return script, i, nil
		}

		last = false
	}

	return nil, 0, nil
}

// readScript returns the first script of a text, or nil. The JSON value ends the script, so
// that one of its strings, such as the prompt of a sub-agent, can contain another script.
func readScript(text string) (*Script, error) {
	_, rest, ok := strings.Cut(text, scriptOpen)
	if !ok {
		return nil, nil
	}

	var s Script

	dec := json.NewDecoder(strings.NewReader(rest))
	dec.DisallowUnknownFields()

	if err := dec.Decode(&s); err != nil {
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return nil, errors.New("unexpected end")
		}

		return nil, err
	}

	return &s, s.check()
}

func (s *Script) check() error {
	total := len(s.Steps)

	if s.Loop != nil {
		if s.Loop.N < 1 || s.Loop.Call.Name == "" {
			return errors.New("loop must have n of at least 1 and a call with a name")
		}

		total += s.Loop.N
	}

	switch {
	case total > maxSteps:
		return fmt.Errorf("steps and loop must not exceed %d steps", maxSteps)
	case total == 0 && !s.Echo && s.Closing == nil && s.Summary == nil:
		return errors.New("one of steps, loop, echo, closing and summary is required")
	}

	if s.Summary != nil {
		if err := s.Summary.check(); err != nil {
			return fmt.Errorf("summary: %w", err)
		}
	}

	for i := range s.Steps {
		if err := s.Steps[i].check(); err != nil {
			return fmt.Errorf("steps[%d]: %w", i, err)
		}
	}

	return nil
}

func (s *Step) check() error {
	switch {
	case min(s.Tokens, s.FirstDelayMS, s.DelayMS, s.Chunk, s.HoldAfter, s.FailTimes) < 0 || s.CutAfter != nil && *s.CutAfter < 0:
		return errors.New("numbers must not be negative")
	case s.Tokens > maxTokens:
		return fmt.Errorf("tokens must be at most %d", maxTokens)
	case s.DelayMS > maxDelay || s.FirstDelayMS > maxDelay:
		return fmt.Errorf("delays must be at most %d ms", maxDelay)
	case s.Status != 0 && (s.Status < 400 || s.Status > 599):
		return errors.New("status must be 400 to 599")
	case s.RetryAfter < 0 || s.RetryAfter > 86_400:
		return errors.New("retry_after must be 0 to 86400 seconds")
	}

	for _, c := range s.Calls {
		if c.Name == "" {
			return errors.New("calls must have a name")
		}
	}

	return nil
}

// step returns the step that answers the k-th call after the script's message.
func (s *Script) step(k int) Step {
	if s.Loop != nil {
		if k < s.Loop.N {
			return s.Loop.step(k)
		}

		k -= s.Loop.N
	}

	switch {
	case k < len(s.Steps):
		return s.Steps[k]
	case k == 0 && s.Echo:
		return Step{Echo: true}
	case s.Closing != nil:
		return Step{Text: *s.Closing}
	}

	return Step{Text: "The script is done."}
}

func (l *Loop) step(i int) Step {
	number := strconv.Itoa(i)
	call := l.Call
	call.Arguments = json.RawMessage(strings.ReplaceAll(string(call.Arguments), "{{i}}", number))
	return Step{Text: strings.ReplaceAll(l.Text, "{{i}}", number), Calls: []Call{call}}
}
