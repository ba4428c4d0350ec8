package terminal

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// serveCommands adds to a fake what commands ask for; it gives what they changed.
func serveCommands(f *fake) *[]string {
	var changed []string

	reply := func(pattern, content string) {
		f.mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodPost {
				body, _ := io.ReadAll(r.Body)

				f.mu.Lock()

				changed = append(changed, r.URL.Path+" "+string(body))
				f.mu.Unlock()
			}

			_, _ = io.WriteString(jsonHead(w), content)
		})
	}
	reply("GET /api/config/models", `{"default":"small","models":[{"id":"small","name":"A"},{"id":"large","name":"B"}]}`)
	reply("GET /api/sessions/s1/tasks", `{"items":[{"subject":"one","status":"completed"},{"subject":"two","status":"pending"}]}`)
	reply("GET /api/sessions/s1/usage", `{"calls":3,"input_tokens":70,"output_tokens":5,"cost_usd":0.25,"uncosted":{"input_tokens":4}}`)
	reply("GET /api/sessions/s1/checkpoints", `[
		{"checkpoint_id":"k1","sequence":1,"kind":"user_turn","label":"first"},
		{"checkpoint_id":"k2","sequence":2,"kind":"tool_batch","label":"tool"},
		{"checkpoint_id":"k3","sequence":3,"kind":"user_turn","label":"second"},
		{"checkpoint_id":"k4","sequence":4,"kind":"user_turn","label":"left","reverted":true}]`)
	reply("POST /api/sessions/s1/rewind", `{}`)
	reply("POST /api/sessions/s1/compact", `{}`)

	return &changed
}

func TestRun_commands(t *testing.T) {
	for _, c := range []struct {
		typed   string
		shown   []string
		changed []string
	}{
		{"/help", []string{"/rewind", "/cost"}, nil},
		{"/nonsense", []string{"there is no command /nonsense"}, nil},
		{"/plan now", []string{"/plan takes no argument"}, nil},
		{"/tasks", []string{"✓ one", "· two"}, nil},
		{"/cost", []string{"3 model calls", "70 tokens in", "0.2500 USD, and 4 tokens of models without a price"}, nil},
		{"/model", []string{"* small", "  large"}, nil},
		{"/model none", []string{"there is no model none"}, nil},
		{"/model large", []string{"new sessions use large"}, nil},
		{"/compact", []string{"done"}, []string{"/api/sessions/s1/compact "}},
		{
			"/rewind\n9\nx\n2",
			[]string{" 1  second", " 2  first", "there is no 9", "there is no x", "before “first”"},
			[]string{`/api/sessions/s1/rewind {"checkpoint_id":"k1"}`},
		},
		{"/rewind\n\n", []string{" 1  second"}, nil},
		{"/sessions\n1", []string{"session “”"}, nil},
		{"/new\n/tasks", []string{"begins a new session", "there is no session yet"}, nil},
	} {
		t.Run(c.typed, func(t *testing.T) {
			f := newFake(t)
			changed := serveCommands(f)
			code, out, notes := f.run(Options{Session: "s1", Interactive: true, In: strings.NewReader(c.typed + "\n")})
			require.Equal(t, ExitCompleted, code, notes)

			for _, text := range c.shown {
				require.Contains(t, out+notes, text)
			}

			require.Equal(t, c.changed, *changed)
			require.Empty(t, f.posts, "a command is no message")
		})
	}
}

// The mode that a command chose goes with the next message, and two slashes make one.
func TestRun_commandsBeforeMessages(t *testing.T) {
	f := newFake(t)
	f.onPost = func(body map[string]any) (int, any) {
		f.emit("chat:start", `"chat_id":"c1"`)
		f.end("completed")

		return accept(body)
	}
	code, _, notes := f.run(Options{Interactive: true, In: strings.NewReader("/plan\none\n/execute\n//etc\n/exit\nafter\n")})
	require.Equal(t, ExitCompleted, code, notes)
	require.Len(t, f.posts, 2)
	require.Equal(t, []any{"one", "planning"}, []any{f.posts[0]["message"], f.posts[0]["mode"]})
	require.Equal(t, []any{"/etc", "executing"}, []any{f.posts[1]["message"], f.posts[1]["mode"]})
}

func TestEditor(t *testing.T) {
	const up, left, paste, pasted = "\x1b[A", "\x1b[D", "\x1b[200~", "\x1b[201~"
	for name, c := range map[string]struct {
		keys string
		want []string
	}{
		"plain":         {"hello\r", []string{"hello"}},
		"edited":        {"hllo" + left + left + left + "e\r", []string{"hello"}},
		"brought back":  {"one\r" + up + "!\r", []string{"one", "one!"}},
		"lines pasted":  {paste + "a\rb\r" + pasted + "c\r", []string{"a\nb\nc"}},
		"invalid UTF-8": {"a\xffb\r", []string{"ab"}},
	} {
		t.Run(name, func(t *testing.T) {
			var shown bytes.Buffer

			raw := 0

			e := newEditor(Screen{
				In: strings.NewReader(c.keys), Out: &shown,
				Raw: func() (func(), error) {
					raw++
					return func() { raw-- }, nil
				},
				Size: func() (int, int, error) { return 80, 24, nil },
			}, nil)
			for _, want := range c.want {
				text, err := e.line(t.Context(), "> ")
				require.NoError(t, err)
				require.Equal(t, want, text)
				require.Zero(t, raw, "the screen is as it was")
			}

			_, err := e.line(t.Context(), "> ")
			require.ErrorIs(t, err, errEnd)
			require.Contains(t, shown.String(), "> ")
		})
	}
}

// Ctrl-C and Ctrl-D are keys while a line is edited.
func TestEditor_leaves(t *testing.T) {
	for _, key := range []string{"\x03", "\x04"} {
		e := newEditor(Screen{
			In: strings.NewReader(key), Out: io.Discard,
			Raw:  func() (func(), error) { return func() {}, nil },
			Size: func() (int, int, error) { return 0, 0, io.EOF },
		}, nil)
		_, err := e.line(t.Context(), "> ")
		require.ErrorIs(t, err, errEnd)
	}
}
