package chat

import (
	"context"
	"strings"

	"everloop/domain"
)

// History continues from an earlier step with a message, and with the files of that step.
type History interface {
	Whatif(ctx context.Context, owner domain.User, send domain.Send) (domain.SendAck, error)
}

// whatif takes a message that continues from an earlier step of the active branch.
// Quotations go before it.
func (s *Service) whatif(ctx context.Context, caller domain.Caller, send domain.Send) (domain.SendAck, error) {
	message := make([]domain.ContentPart, 0, len(send.Whatif.Quotes)+len(send.Message))
	for _, quote := range send.Whatif.Quotes {
		if text := strings.TrimSpace(quote.Text); text != "" {
			message = append(message, domain.ContentPart{Type: "text", Text: quoted(text)})
		}
	}

	send.Message = append(message, send.Message...)

	ack, err := s.cfg.History.Whatif(ctx, caller.User, send)
	if err == nil && len(send.Message) == 0 {
		ack.TurnID = "" // the loop continues without a user turn
	}

	return ack, err
}

// quoted marks a text as a quotation, line by line.
func quoted(text string) string {
	return "> " + strings.ReplaceAll(text, "\n", "\n> ") + "\n\n"
}
