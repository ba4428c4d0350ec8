package mock

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

const (
	scriptOpen = "[[script]]"

	maxSteps  = 10_000
	maxTokens = 1_000_000
	maxDelay  = 60_000 // ms
)

// Script is an order for the answers to the model calls that follow a user
// message.
type Script struct {
	Loop  *Loop  `json:"loop,omitempty"`  // comes before the steps
	Steps []Step `json:"steps,omitempty"` // step k answers the k-th call
	Echo  bool   `json:"echo,omitempty"`  // one step that answers with the received request
	// Closing answers every call after the last step.
	Closing *string `json:"closing,omitempty"`
	// Sticky keeps the script in charge when later user messages without a
	// script join the conversation, as a steering message does.
	Sticky bool `json:"sticky,omitempty"`
	// Summary is how a request to summarise a conversation is answered that quotes
	// the script; the last one counts. Default: a plain summary.
	Summary *Step `json:"summary,omitempty"`
	// Note is ignored. It makes two scripts differ for fail_times, which counts
	// equal requests.
	Note string `json:"note,omitempty"`
}

// Loop is n equal steps with one tool call each. {{i}} in the call's arguments
// and in the text is replaced by the number of the step, from 0.
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
	// Raw is sent as the arguments text instead, for malformed arguments.
	Raw *string `json:"raw,omitempty"`
}

// Step is one answer and how it is sent. A piece is one chunk of text.
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

	// Hold keeps the stream open after HoldAfter pieces (default 1) until the
	// client leaves or POST /control/release.
	Hold      bool `json:"hold,omitempty"`
	HoldAfter int  `json:"hold_after,omitempty"`

	// Faults. With FailTimes only the first so many equal requests fail; without
	// it all do.
	Status         int     `json:"status,omitempty"`           // refuse with this HTTP status (400 to 599)
	ErrorCode      string  `json:"error_code,omitempty"`       // code of the error object
	ErrorMessage   string  `json:"error_message,omitempty"`    // its text
	RetryAfter     float64 `json:"retry_after,omitempty"`      // seconds, rounded up, with a status
	CutAfter       *int    `json:"cut_after,omitempty"`        // break the connection after so many pieces
	ErrorMidStream bool    `json:"error_mid_stream,omitempty"` // error object after CutAfter (default 1) pieces
	Malformed      bool    `json:"malformed,omitempty"`        // broken JSON after CutAfter (default 1) pieces
	FailTimes      int     `json:"fail_times,omitempty"`       // alone it means status 503
}

// Usage is the count of tokens that an answer reports.
type Usage struct {
	PromptTokens     int `json:"prompt_tokens"`
	CompletionTokens int `json:"completion_tokens"`
	TotalTokens      int `json:"total_tokens"`

	Details *UsageDetails `json:"prompt_tokens_details,omitempty"`
}

// UsageDetails says which tokens of the prompt came from the server's cache.
type UsageDetails struct {
	CachedTokens int `json:"cached_tokens"`
}

// findScript gives the script in charge and the index of its message. A script
// in the last user message rules; else the last sticky one of the conversation.
func findScript(messages []chatMessage) (script *Script, at int, fault *apiError) {
	last := true

	for i := len(messages) - 1; i >= 0; i-- {
		text := string(messages[i].Content)
		if messages[i].Role != "user" || isReminder(text) {
			continue
		}

		found, err := readScript(text)
		if err != nil && last {
			return nil, 0, &apiError{
				Status:  400,
				Type:    "invalid_request_error",
				Code:    "invalid_script",
				Message: "the script cannot be used: " + err.Error(),
			}
		}

		if found != nil && err == nil && (last || found.Sticky) {
			return found, i, nil
		}

		last = false
	}

	return nil, 0, nil
}

// isReminder reports whether a user message was put in by the agent and not
// said by the user.
func isReminder(text string) bool { return strings.HasPrefix(text, reminderOpen) }

// readScript reads the first script of a text; nil when there is none. The
// JSON value ends the script, so that it may hold another one in a string, as
// the prompt of a sub-agent.
func readScript(text string) (*Script, error) {
	_, rest, found := strings.Cut(text, scriptOpen)
	if !found {
		return nil, nil
	}

	var s Script

	dec := json.NewDecoder(strings.NewReader(rest))
	dec.DisallowUnknownFields()

	if err := dec.Decode(&s); err != nil {
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return nil, errors.New("it ends too early")
		}

		return nil, err
	}

	return &s, s.check()
}

func (s *Script) check() error {
	total := len(s.Steps)
	if s.Loop != nil {
		if s.Loop.N < 1 || s.Loop.Call.Name == "" {
			return errors.New("loop needs n of at least 1 and a call with a name")
		}

		total += s.Loop.N
	}

	if total > maxSteps {
		return fmt.Errorf("it has more than %d steps", maxSteps)
	}

	if s.Summary != nil {
		if err := s.Summary.check(); err != nil {
			return fmt.Errorf("summary: %w", err)
		}
	}

	if total == 0 && !s.Echo && s.Closing == nil && s.Summary == nil {
		return errors.New("it orders nothing: give steps, loop, echo or closing")
	}

	for i := range s.Steps {
		if err := s.Steps[i].check(); err != nil {
			return fmt.Errorf("steps[%d]: %w", i, err)
		}
	}

	return nil
}

func (s *Step) check() error {
	for _, n := range []int{s.Tokens, s.FirstDelayMS, s.DelayMS, s.Chunk, s.HoldAfter, s.FailTimes} {
		if n < 0 {
			return errors.New("numbers must not be negative")
		}
	}

	switch {
	case s.Tokens > maxTokens:
		return fmt.Errorf("tokens is at most %d", maxTokens)
	case s.DelayMS > maxDelay || s.FirstDelayMS > maxDelay:
		return fmt.Errorf("a delay is at most %d ms", maxDelay)
	case s.Status != 0 && (s.Status < 400 || s.Status > 599):
		return errors.New("status must be from 400 to 599")
	case s.RetryAfter < 0 || s.RetryAfter > 86_400:
		return errors.New("retry_after must be from 0 to 86400 seconds")
	case s.CutAfter != nil && *s.CutAfter < 0:
		return errors.New("cut_after must not be negative")
	}

	for _, c := range s.Calls {
		if c.Name == "" {
			return errors.New("a call needs a name")
		}
	}

	return nil
}

// step gives the step that answers the k-th call after the script's message.
func (s *Script) step(k int) Step {
	if s.Loop != nil {
		if k < s.Loop.N {
			return s.Loop.step(k)
		}

		k -= s.Loop.N
	}

	if k < len(s.Steps) {
		return s.Steps[k]
	}

	if k == 0 && s.Echo {
		return Step{Echo: true}
	}

	if s.Closing != nil {
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
