package session

import (
	"encoding/json"
	"slices"
	"strings"

	"everloop/domain"
)

// hidden stands for what a shared view leaves out.
const hidden = "[hidden]"

// minSecret is the shortest environment value that is looked for in texts:
// shorter ones, as "1" or "yes", are in every text.
const minSecret = 4

// minSecretLine is the shortest line of a value that is looked for by itself.
const minSecretLine = 16

// redactor takes out of turns what a shared view must not show.
type redactor struct {
	shared domain.SharedSession
	path   string // of pictures, with the token
	values *strings.Replacer
}

func newRedactor(shared domain.SharedSession, token string, environments ...map[string]string) redactor {
	r := redactor{shared: shared, path: "/api/share/" + token + "/attachments/"}

	var secrets []string

	for _, env := range environments {
		for _, value := range env {
			secrets = append(secrets, looks(value)...)
		}
	}

	slices.SortFunc(secrets, func(a, b string) int { return len(b) - len(a) }) // a value may be part of another

	var pairs []string
	for _, secret := range secrets {
		pairs = append(pairs, secret, hidden)
	}

	r.values = strings.NewReplacer(pairs...)

	return r
}

// looks gives how a value may look in a text: as it is, as the arguments of a
// call hold it, which are JSON, and, when it has several lines, each long one.
func looks(value string) []string {
	if value = strings.TrimSpace(value); len(value) < minSecret {
		return nil
	}

	all := []string{value}
	if quoted, err := json.Marshal(value); err == nil {
		all = append(all, string(quoted[1:len(quoted)-1]))
	}

	if strings.Contains(value, "\n") {
		for line := range strings.Lines(value) {
			if line = strings.TrimSpace(line); len(line) >= minSecretLine {
				all = append(all, line)
			}
		}
	}

	return all
}

// text takes secrets out of a text.
func (r redactor) text(s string) string {
	return domain.SecretShapes.ReplaceAllString(r.values.Replace(s), hidden)
}

func (r redactor) optional(s *string) *string {
	if s == nil {
		return nil
	}

	clean := r.text(*s)

	return &clean
}

// connections are part of a call's result; a command can put a secret into a name.
func (r redactor) connections(all []domain.Connection) []domain.Connection {
	if r.shared.Redact.ToolResults {
		return nil
	}

	all = slices.Clone(all)
	for i := range all {
		all[i].Host, all[i].Reason = r.text(all[i].Host), r.text(all[i].Reason)
	}

	return all
}

// turn changes a turn to what may be shown.
func (r redactor) turn(t *domain.Turn) {
	t.MemoryRefs = nil
	t.FailureReason, t.SummaryFull, t.SummaryPreview = r.optional(t.FailureReason), r.optional(t.SummaryFull), r.optional(t.SummaryPreview)

	blocks := make([]domain.Block, 0, len(t.Blocks))
	for _, b := range t.Blocks {
		switch {
		case b.Type == domain.BlockThinking && r.shared.Redact.Thinking:
			continue
		case b.Type == domain.BlockToolResult && r.shared.Redact.ToolResults:
			b.Content = hidden
		case b.Type == domain.BlockImage, b.Type == domain.BlockAudio:
			if name, ours := strings.CutPrefix(b.Content, "/api/sessions/"+string(r.shared.SessionID)+"/attachments/"); ours {
				b.Content = r.path + name
			}
		default:
			b.Content = r.text(b.Content)
		}

		b.DisplayName = r.optional(b.DisplayName)
		blocks = append(blocks, b)
	}

	t.Blocks = blocks

	calls := make([]domain.ToolCall, len(t.ToolCalls))
	for i, call := range t.ToolCalls {
		call.DisplayName, call.Arguments, call.Result = r.text(call.DisplayName), r.text(call.Arguments), r.text(call.Result)
		if r.shared.Redact.ToolResults && call.Result != "" {
			call.Result = hidden
		}

		call.Connections = r.connections(call.Connections)
		if r.shared.Redact.ToolResults {
			call.Images = nil
		}

		calls[i] = call
	}

	t.ToolCalls = calls
}
