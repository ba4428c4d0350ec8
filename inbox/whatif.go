package inbox

import (
	"context"
	"strings"

	"everloop/domain"
)

// History runs a message on from an earlier step, with the files of that step.
type History interface {
	Whatif(ctx context.Context, owner domain.User, send domain.Send) (domain.SendAck, error)
}

// whatif hands a message in that runs on from a step of the active branch
// (decisions.md section 5). Quotations go before it.
func (d *Desk) whatif(ctx context.Context, caller domain.Caller, send domain.Send) (domain.SendAck, error) {
	message := make([]domain.ContentPart, 0, len(send.Whatif.Quotes)+len(send.Message))
	for _, quote := range send.Whatif.Quotes {
		if text := strings.TrimSpace(quote.Text); text != "" {
			message = append(message, domain.ContentPart{Type: "text", Text: quoted(text)})
		}
	}
	send.Message = append(message, send.Message...)
	ack, err := d.History.Whatif(ctx, caller.User, send)
	if err == nil && len(send.Message) == 0 {
		ack.TurnID = "" // the loop simply runs on: there is no user turn
	}
	return ack, err
}

// quoted marks a text as somebody's words, line by line.
func quoted(text string) string {
	return "> " + strings.ReplaceAll(text, "\n", "\n> ") + "\n\n"
}
