package session

import (
	"slices"
	"strings"

	"everloop/domain"
)

// hidden stands for what a shared view leaves out.
const hidden = "[hidden]"

// redactor takes out of turns what a shared view must not show.
type redactor struct {
	shared domain.SharedSession
	path   string // of pictures, with the token
	values *strings.Replacer
}

func newRedactor(shared domain.SharedSession, token string, environments ...map[string]string) redactor {
	return redactor{
		shared: shared, path: "/api/share/" + token + "/attachments/", values: domain.ValueMasker(hidden, environments...),
	}
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
