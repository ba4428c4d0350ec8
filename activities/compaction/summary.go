package compaction

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"go.opentelemetry.io/otel/attribute"

	"everloop/activities/prompt"
	"everloop/domain"
)

//go:embed summary.md
var summaryPrompt string

// Sizes of what is summarised, in characters: results and arguments are
// shortened, as their essence is in what was said about them.
const (
	shownResult    = 2000
	shownArguments = 800
)

// Sizes of a summary and of a piece of history.
const (
	maxSummary = 4000 // tokens
	minPiece   = 500  // tokens; a server that refuses less cannot be helped
)

// summaryTokens returns how long a summary may be.
func (c *attempt) summaryTokens() int { return int(min(maxSummary, c.model.ContextWindow/8)) }

// summarise has the model add the next piece of the history to the summary: as
// many turns as fit into one request. It is an auxiliary call without tools
// (docs/context.md#compaction). Its cost counts also when its result does not.
func (c *attempt) summarise(ctx context.Context, turns []domain.TranscriptTurn) error {
	if len(turns) == 0 {
		return nil
	}

	summary := c.Work.Summary
	if c.Work.Upto < 0 {
		summary = c.earlier
	}

	if c.Work.Piece == 0 {
		c.Work.Piece = int(c.model.ContextWindow / 2)
	}

	words, tries := c.summaryTokens()*6/10, 0

	for {
		piece, upto := c.piece(turns, c.Work.Piece-c.Tokens.Count(c.model.ID, summary))
		about := attribute.String("everloop.session_id", string(c.sessionID))
		reply, err := c.Models.Stream(ctx, c.summaryRequest(summary, piece, words), nil, about)

		c.Work.Usage = c.Work.Usage.Add(c.model.Price.Charge(reply.Usage))
		if fault, ok := errors.AsType[*domain.ModelError](err); ok && fault.Fault == domain.FaultContextOverflow &&
			c.Work.Piece/2 >= minPiece {
			c.Work.Piece /= 2 // the server counts otherwise than we do
			continue
		}

		if err != nil {
			return err
		}

		text := domain.CleanText(strings.TrimSpace(reply.Text))
		if fault := summaryFault(text, reply.FinishReason); fault != nil {
			if tries++; tries >= maxSummaryTries {
				return fault
			}

			words /= 2

			continue
		}

		c.Work.Summary, c.Work.Upto = c.cut(text), upto

		return nil
	}
}

// maxSummaryTries bounds the calls for one piece whose answers are no summary.
const maxSummaryTries = 3

// summaryFault returns the final fault of an answer that cannot stand for the history:
// it is empty, or its end is missing.
func summaryFault(text, finish string) error {
	switch {
	case finish == domain.ReplyFiltered:
		return domain.Newf(domain.Conflict, string(domain.FinishContentFiltered), "the model server's content filter ended the summary")
	case finish == domain.ReplyLength:
		return domain.Newf(domain.Conflict, string(domain.FinishOutputLimit), "the summary reached the limit of the answer's length")
	case text == "":
		return domain.Newf(domain.Conflict, string(domain.FinishEmptyAnswer), "the model returned an empty summary")
	default:
		return nil
	}
}

func (c *attempt) summaryRequest(summary, piece string, words int) domain.Prompt {
	var order strings.Builder
	if summary != "" {
		fmt.Fprintf(&order, "The summary so far:\n\n<summary>\n%s\n</summary>\n\nThe conversation goes on:\n\n", summary)
	} else {
		order.WriteString("The conversation:\n\n")
	}

	fmt.Fprintf(
		&order, "<conversation>\n%s</conversation>\n\nWrite the summary now, of everything, in at most %d words.", piece, words,
	)

	return domain.Prompt{Model: c.model.ID, Messages: []domain.PromptMessage{
		prompt.Text("system", summaryPrompt), prompt.Text("user", order.String()),
	}}
}

// piece renders turns until the budget is used up: at least one, cut if need be.
func (c *attempt) piece(turns []domain.TranscriptTurn, budget int) (piece string, upto int64) {
	budget = max(budget, minPiece/2)

	var b strings.Builder

	for i, t := range turns {
		text := rendered(t)

		size := c.Tokens.Count(c.model.ID, text)
		if size > budget {
			if i > 0 {
				break
			}

			text = shorten(text, max(utf8.RuneCountInString(text)*budget/size, 200)) + "\n"
			size = budget
		}

		b.WriteString(text)

		budget -= size
		upto = t.Sequence
	}

	return b.String(), upto
}

// cut bounds a summary: a model that runs away must not fill the context that
// was to be emptied.
func (c *attempt) cut(summary string) string {
	most, size := c.summaryTokens()*2, c.Tokens.Count(c.model.ID, summary)
	if size <= most {
		return summary
	}

	return shorten(summary, utf8.RuneCountInString(summary)*most/size)
}

// rendered returns a turn as the summarising model reads it.
func rendered(t domain.TranscriptTurn) string {
	var b strings.Builder

	switch t.Role {
	case domain.RoleUser:
		b.WriteString("User: ")

		for _, p := range t.Parts {
			switch {
			case p.ImageURL != nil:
				b.WriteString("[a picture] ")
			case p.AudioURL != nil:
				b.WriteString(p.Heard() + " ")
			default:
				b.WriteString(p.Text + " ")
			}
		}
	case domain.RoleSystem:
		b.WriteString("Note: " + prompt.Note(t.Blocks))
	default:
		b.WriteString("Assistant: " + prompt.Spoken(t))
	}

	b.WriteByte('\n')

	for _, call := range t.Calls {
		fmt.Fprintf(&b, "Tool call: %s %s\n", call.ToolName, shorten(call.Arguments, shownArguments))
		fmt.Fprintf(&b, "Result (%s): %s\n", call.Status, shorten(prompt.Result(call), shownResult))

		if len(call.Images) > 0 {
			fmt.Fprintf(&b, "[with %d pictures]\n", len(call.Images))
		}
	}

	return b.String()
}

// shorten keeps the beginning and the end of a text.
func shorten(text string, most int) string {
	n := utf8.RuneCountInString(text)
	if n <= most {
		return text
	}

	runes := []rune(text)
	head := most * 3 / 4

	return string(runes[:head]) + fmt.Sprintf(" [… %d characters left out …] ", n-most) + string(runes[n-(most-head):])
}
