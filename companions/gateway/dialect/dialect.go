// Package dialect translates between the wire formats of model interfaces: it translates
// requests of Anthropic's Messages and OpenAI's Responses to chat completions, and the answers,
// whole or streamed, back. It does not depend on keys, sources or limits of the gateway, and
// sends no requests.
package dialect

import (
	"bytes"
	"encoding/json"
	"io"

	"github.com/tidwall/gjson"
)

// Dialect translates one request of an interface other than chat completions to a chat
// completions request, and its answer back.
type Dialect interface {
	// Request translates a body, which is a JSON object.
	Request(text []byte) (Translation, *Invalid)
	// Whole translates a completion. fault describes an invalid completion; empty: none.
	Whole(of Answered, completion []byte) (answer any, fault string)
	// Stream starts the translation of a stream.
	Stream(of Answered, out io.Writer) Stream
	// Refusal returns an error of the gateway or of a source in the interface's format.
	Refusal(status int, text []byte) any
}

// Stream translates the pieces of a completion.
type Stream interface {
	// Silence writes a keep-alive during a pause.
	Silence()
	// Chunk translates a piece of a completion, or a whole one, as JSON.
	Chunk(text []byte)
	// Malformed handles a piece that is not JSON.
	Malformed()
	// End writes the end of an answer that its source reports as complete.
	End()
	// Finish ends a stream whose source sent a finish reason and no [DONE].
	Finish()
	// Failed returns the first write error.
	Failed() error
}

// Answered describes the request whose answer is translated.
type Answered struct {
	Model  string        // the name in the request, repeated in the answer
	Tokens func() Tokens // of the answer so far
}

// Tokens are the token counts of the source, else the gateway's estimate.
type Tokens struct {
	Prompt     int64
	Completion int64
}

// Translation is a request of chat completions.
type Translation struct {
	Text    []byte
	Omitted []string // names of tools that the source does not support
}

// Invalid describes why a request cannot be translated.
type Invalid struct {
	Message string
	Details map[string]any // for programs; nil: none
}

func invalid(message string) *Invalid { return &Invalid{Message: message} }

// reason returns the message and the code of an error, in the formats of different sources.
func reason(text []byte) (message, code string) {
	object := gjson.ParseBytes(text)
	fault := object.Get("error")

	code = object.Get("error.code").String()
	for _, one := range []gjson.Result{object.Get("error.message"), fault, object.Get("message"), object.Get("detail")} {
		if one.Type == gjson.String && one.String() != "" {
			return one.String(), code
		}
	}

	return fault.Raw, code
}

// encoded returns a request of chat completions as JSON.
func encoded(request map[string]any) ([]byte, *Invalid) {
	var out bytes.Buffer

	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false) // HTML escapes would enlarge some texts sixfold

	if encoder.Encode(request) != nil {
		return nil, invalid("the body is nested too deeply")
	}

	return bytes.TrimSpace(out.Bytes()), nil
}
