package mcp

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"sync"
)

// taskTools collects the tools that a server runs only as tasks, which the service does not
// support. The SDK drops the member execution of tools, so the messages are parsed a second time.
type taskTools struct {
	mu    sync.Mutex
	names map[string]bool
}

// reset drops the names before a list is read.
func (t *taskTools) reset() {
	t.mu.Lock()
	defer t.mu.Unlock()

	t.names = nil
}

func (t *taskTools) has(name string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()

	return t.names[name]
}

// read records the names in a message of the server.
func (t *taskTools) read(message []byte) {
	if !bytes.Contains(message, []byte(`"taskSupport"`)) {
		return
	}

	var list struct {
		Result struct {
			Tools []struct {
				Name      string `json:"name"`
				Execution struct {
					TaskSupport string `json:"taskSupport"`
				} `json:"execution"`
			} `json:"tools"`
		} `json:"result"`
	}

	_ = json.Unmarshal(message, &list) // the SDK reports invalid messages

	t.mu.Lock()
	defer t.mu.Unlock()

	for _, tool := range list.Result.Tools {
		if tool.Execution.TaskSupport != "required" {
			continue
		}

		if t.names == nil {
			t.names = map[string]bool{}
		}

		t.names[tool.Name] = true
	}
}

// lists reports whether the response of an HTTP request can contain a list of tools: the response
// of tools/list, or of a resumed stream.
func lists(r *http.Request) bool {
	if r.Header.Get("Last-Event-Id") != "" {
		return true
	}

	if r.GetBody == nil {
		return false
	}

	body, err := r.GetBody()
	if err != nil {
		return false
	}
	defer body.Close()

	sent, err := io.ReadAll(io.LimitReader(body, maxMessage))

	return err == nil && bytes.Contains(sent, []byte(`"tools/list"`))
}

// messages splits the body of an HTTP response into messages.
type messages struct {
	stream  bool // of server-sent events
	tools   *taskTools
	pending []byte // incomplete line or document
	data    []byte // of the current event
}

// write processes the next part of the body.
func (m *messages) write(part []byte) {
	if len(m.pending)+len(m.data)+len(part) > maxMessage {
		m.pending, m.data = nil, nil
		return
	}

	m.pending = append(m.pending, part...)

	for m.stream {
		line, rest, complete := bytes.Cut(m.pending, []byte("\n"))
		if !complete {
			return
		}

		m.line(bytes.TrimSuffix(line, []byte("\r")))
		m.pending = rest
	}
}

// line processes one line of a stream; an empty line ends an event.
func (m *messages) line(line []byte) {
	if data, ok := bytes.CutPrefix(line, []byte("data:")); ok {
		m.data = append(m.data, data...)
	} else if len(line) == 0 {
		m.tools.read(m.data)
		m.data = nil
	}
}

// end processes the remainder at the end of the body.
func (m *messages) end() {
	m.tools.read(m.pending)
	m.pending = nil
}
