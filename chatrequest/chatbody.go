// Package chatrequest declares and parses chat requests of clients, for REST and for Socket.IO.
// The OpenAPI document is generated from the same structs: [Decode] enforces the rules in their
// tags.
package chatrequest

import (
	"encoding/json"
	"strings"

	"everloop/domain"
	"everloop/domain/schema"
)

// ChatBody is the body of chat:send and of POST /api/sessions/{id}/chat: a message,
// or the answer to a question.
type ChatBody struct {
	SessionID       domain.SessionID `json:"session_id,omitempty" nullable:"true" doc:"The session. Required for chat:send; with REST left out, or that of the path." example:"01a1ff63-2e0c-7d30-8650-39ac67aaafb7"`
	Message         Content          `json:"message,omitempty" doc:"Text, or an array of parts. Empty only with askuser_answer or whatif." example:"\"Summarise the changes of June.\""`
	Mode            string           `json:"mode,omitempty" nullable:"true" enum:"planning,executing" doc:"For this message; without it, the mode of the session."`
	Headless        bool             `json:"headless,omitempty" nullable:"true" doc:"true: one result in chat:end, and no questions."`
	Delivery        string           `json:"delivery,omitempty" nullable:"true" enum:"enqueue,steer,interrupt,reject" default:"enqueue" doc:"While a chat runs."`
	Whatif          *ChatWhatif      `json:"whatif" required:"false" doc:"Run on from a step."`
	ClientMessageID string           `json:"client_message_id,omitempty" nullable:"true" maxLength:"200" doc:"The same id again is the same message. At most 200 bytes, without NUL characters." example:"m-1"`
	OutputSchema    Object           `json:"output_schema,omitempty" doc:"JSON Schema (2020-12 or draft-07) of the result; implies headless." example:"{\"type\": \"object\"}"`
	AskUserAnswer   *ChatAnswer      `json:"askuser_answer" required:"false" doc:"The answer to an open question. It cannot come with whatif."`
}

// ChatAnswer answers an open question. Every question needs an option, a text or both.
type ChatAnswer struct {
	ToolCallID string     `json:"tool_call_id" required:"true" minLength:"1" doc:"The tool call that asks." example:"call_01a1ff63-403c-7525-87e0-24c27055af31"`
	Selections Selections `json:"selections,omitempty" doc:"Indexes of chosen options, by the number of the question from 0." example:"{\"0\": [1]}"`
	Custom     Custom     `json:"custom,omitempty" doc:"Texts instead of options or besides them, by the number of the question from 0." example:"{\"1\": \"Neither of them.\"}"`
}

// ChatWhatif requests a run from a step of the active branch.
type ChatWhatif struct {
	FromStep          int             `json:"from_step" required:"true" minimum:"0" maximum:"2147483647" doc:"Keep the first so many steps and run from the next." example:"2"`
	Quotes            []ChatQuote     `json:"quotes,omitempty" nullable:"true" doc:"Quotations before the message."`
	DeprecateEntryIDs []domain.TurnID `json:"deprecate_entry_ids,omitempty" nullable:"true" doc:"Ids of entries that leave the model's context." example:"[\"01a1ff63-2e65-78fc-9f81-0bf414a0eeac\"]"`
}

// ChatQuote is an excerpt before the message of a what-if.
type ChatQuote struct {
	EntryID domain.TurnID `json:"entry_id,omitempty" nullable:"true" doc:"The quoted entry." example:"01a1ff63-2e65-78fc-9f81-0bf414a0eeac"`
	Text    string        `json:"text" required:"true" minLength:"1" doc:"The quoted text." example:"The release is on Friday."`
}

// StopScope is the body of POST /api/sessions/{id}/stop, and a part of the payload of
// chat:stop.
type StopScope struct {
	Scope *string `json:"scope,omitempty" nullable:"true" enum:"chat,chat_and_queue" doc:"chat (default), or chat_and_queue: queued messages are dropped too."`
}

// AndQueue reports whether queued messages are also dropped.
func (s StopScope) AndQueue() bool { return s.Scope != nil && *s.Scope == "chat_and_queue" }

// Chat is a valid [ChatBody]: a message, or an answer when Answer is set.
type Chat struct {
	SessionID domain.SessionID // in the body; empty when missing
	Send      domain.Send
	Answer    *domain.Answer
}

// ParseChat parses a [ChatBody]. Its error is a *domain.Error with the code
// invalid_request, invalid_answer (for the content of an answer) or invalid_schema.
// The trigger is user or whatif; other edges set their own.
func ParseChat(raw json.RawMessage) (Chat, error) {
	var body ChatBody
	if err := Decode(raw, &body); err != nil {
		return Chat{}, err
	}

	if err := body.check(); err != nil {
		return Chat{}, err
	}

	chat := Chat{SessionID: body.SessionID}
	if body.AskUserAnswer != nil {
		answer, err := body.AskUserAnswer.answer()
		chat.Answer = answer

		return chat, err
	}

	chat.Send = body.send()

	return chat, nil
}

// check validates the rules between the body's fields.
func (b *ChatBody) check() error {
	switch {
	case b.AskUserAnswer != nil && b.Whatif != nil:
		return domain.Invalidf("body.whatif", "cannot come with askuser_answer")
	case b.AskUserAnswer == nil && b.Whatif == nil && len(b.Message) == 0:
		return domain.Invalidf("body.message", "must not be empty")
	case b.OutputSchema == nil:
		return nil
	}

	_, err := schema.Compile(json.RawMessage(b.OutputSchema))
	if err == nil {
		return nil
	}

	fault := *domain.AsError(err)
	fault.Fields = []domain.Field{{Location: "body.output_schema", Message: fault.Message}}

	return &fault
}

func (b *ChatBody) send() domain.Send {
	send := domain.Send{
		SessionID:       b.SessionID,
		Message:         b.Message,
		Mode:            domain.Mode(b.Mode),
		Headless:        b.Headless || b.OutputSchema != nil,
		OutputSchema:    json.RawMessage(b.OutputSchema),
		ClientMessageID: b.ClientMessageID,
		Delivery:        domain.Delivery(b.Delivery),
		Trigger:         domain.TriggerUser,
	}
	if b.Whatif != nil {
		send.Trigger, send.Whatif = domain.TriggerWhatif, b.Whatif.whatif()
	}

	return send
}

func (w *ChatWhatif) whatif() *domain.Whatif {
	out := &domain.Whatif{FromStep: w.FromStep, DeprecateEntryIDs: w.DeprecateEntryIDs}
	for _, quote := range w.Quotes {
		out.Quotes = append(out.Quotes, domain.Quote{EntryID: quote.EntryID, Text: domain.CleanText(quote.Text)})
	}

	return out
}

// said reports whether a part has content: an image, a recording, or text that is not blank.
func said(part domain.ContentPart) bool {
	return part.Type != partText || strings.TrimSpace(part.Text) != ""
}
