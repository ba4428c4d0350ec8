package api

import (
	"context"
	"encoding/json"
	"net/http"
	"reflect"

	"github.com/danielgtaylor/huma/v2"
	"github.com/gofiber/fiber/v2"

	"everloop/auth"
	"everloop/domain"
	"everloop/realtime"
)

// chatAccepted is the answer to a message or an answer once it is durable.
type chatAccepted struct {
	ChatID          string          `json:"chat_id"`
	TurnID          string          `json:"turn_id,omitempty"`
	DeliveryApplied domain.Delivery `json:"delivery_applied,omitempty" enum:"run,enqueue,steer,interrupt"`
	Position        *int            `json:"position,omitempty" doc:"Place in the queue; 0: not queued."`
	Duplicate       *bool           `json:"duplicate,omitempty" doc:"The message had been sent before; nothing runs twice."`
	Resolved        *bool           `json:"resolved,omitempty" doc:"Whether this answer is the one that counts."`
	QuestionID      string          `json:"question_id,omitempty"`
}

type stopBody struct {
	Stopped bool `json:"stopped"`
}

type chatInput struct {
	SessionRef
	Body json.RawMessage `required:"true"`
}

// chatBody documents the body, which realtime.ParseSend checks for both doors.
type chatBody struct {
	Message         any            `json:"message,omitempty" doc:"Text, or an array of parts: {type: text, text} and {type: image_url, image_url: {url}}. May be empty only with askuser_answer or whatif."`
	Mode            domain.Mode    `json:"mode,omitempty" enum:"planning,executing" doc:"For this message."`
	Headless        bool           `json:"headless,omitempty" doc:"true: one result in chat:end, and no questions."`
	OutputSchema    map[string]any `json:"output_schema,omitempty" doc:"JSON Schema of the result; implies headless."`
	AskUserAnswer   *chatAnswer    `json:"askuser_answer,omitempty" doc:"The answer to an open question."`
	Whatif          *chatWhatif    `json:"whatif,omitempty" doc:"Run on from a step."`
	ClientMessageID string         `json:"client_message_id,omitempty" maxLength:"200" doc:"The same id again is the same message. At most 200 bytes."`
	Delivery        string         `json:"delivery,omitempty" enum:"enqueue,steer,interrupt,reject" default:"enqueue" doc:"While a chat runs."`
}

type chatAnswer struct {
	ToolCallID string         `json:"tool_call_id"`
	Selections map[string]any `json:"selections,omitempty" doc:"Arrays of the indexes of chosen options, by the number of the question from 0."`
	Custom     map[string]any `json:"custom,omitempty" doc:"Texts instead of options, by the number of the question from 0."`
}

type chatWhatif struct {
	FromStep          int   `json:"from_step" minimum:"0" maximum:"2147483647" doc:"Keep the first so many steps and run from the next."`
	Quotes            []any `json:"quotes,omitempty" doc:"Quotations before the message: {entry_id, text}."`
	DeprecateEntryIDs []any `json:"deprecate_entry_ids,omitempty" doc:"Ids of entries that leave the model's context."`
}

func (s *server) chatRoutes() {
	const path, tag = "/api/sessions/{session_id}", "Chat"
	add(s, operation{
		id: "send-chat", method: fiber.MethodPost, path: path + "/chat", tag: tag,
		summary: "Send a message, or answer a question", scope: auth.Chat, status: http.StatusAccepted, stream: true, repeats: true,
		changes: func(op *huma.Operation) {
			schemas := s.huma.OpenAPI().Components.Schemas
			putResponse(op, http.StatusAccepted, map[string]*huma.MediaType{
				fiber.MIMEApplicationJSON: {Schema: schemas.Schema(reflect.TypeFor[chatAccepted](), true, "")},
			})
			describeAs(http.StatusOK, "text/event-stream")(op)
			op.Description = "With Accept: text/event-stream the answer is the chat's events, to its chat:end."
			op.RequestBody = &huma.RequestBody{Required: true, Content: map[string]*huma.MediaType{
				fiber.MIMEApplicationJSON: {Schema: schemas.Schema(reflect.TypeFor[chatBody](), true, "")},
			}}
		},
	}, s.chat)
	add(s, operation{
		id: "stop-chat", method: fiber.MethodPost, path: path + "/stop", tag: tag, summary: "Stop the running chat", scope: auth.Chat,
	}, s.stopChat)
}

// chat makes a message durable and answers 202, or follows the chat to its end
// when the client takes events.
func (s *server) chat(ctx context.Context, in *chatInput) (*streamed, error) {
	caller := callerOf(ctx)
	if _, err := s.Store.OwnSession(ctx, caller.User, in.SessionID); err != nil {
		return nil, err
	}
	if !requestOf(ctx).events {
		accepted, err := s.accept(ctx, in)
		return &streamed{acceptedAnswer(accepted)}, err
	}
	subscription, err := s.Streams(ctx, in.SessionID, nil) // before the message, so that nothing is missed
	if err != nil {
		return nil, err
	}
	accepted, err := s.accept(ctx, in)
	if err != nil || accepted.Resolved != nil && !*accepted.Resolved { // an answer that came too late starts nothing
		subscription.Close()
		return &streamed{acceptedAnswer(accepted)}, err
	}
	again := value(accepted.Duplicate) || repeated(ctx)
	if again { // what was told before is told again, from the chat's start
		subscription.Close()
		var all uint64
		if subscription, err = s.Streams(ctx, in.SessionID, &all); err != nil {
			return nil, err
		}
	}
	return &streamed{func(ctx huma.Context) {
		stay := s.mayStay(caller, in.SessionID, domain.ViewerOwner)
		s.openStream(ctx, func(ctx context.Context, out *eventStream) error {
			defer subscription.Close()
			return s.follow(ctx, out, in.SessionID, subscription, stay, func(e domain.LoggedEvent) (send, last bool) {
				ours := e.ChatID == accepted.ChatID
				again = again && !(ours && e.Name == domain.EventChatStart)
				// All events of the session, so that the chain of prev_seq is whole.
				return !again, ours && e.Name == domain.EventChatEnd
			})
		})
	}}, nil
}

// accept parses the body and hands it to the desk, once for an Idempotency-Key.
func (s *server) accept(ctx context.Context, in *chatInput) (chatAccepted, error) {
	once := requestOf(ctx).once
	var accepted chatAccepted
	if repeated(ctx) {
		return accepted, json.Unmarshal(once.first.Body, &accepted)
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	accepted, err := s.deliver(ctx, in)
	if err != nil {
		return accepted, err
	}
	kept, err := json.Marshal(accepted)
	if err != nil {
		return accepted, err
	}
	once.keep(s, &domain.StoredAnswer{Status: http.StatusAccepted, ContentType: fiber.MIMEApplicationJSON, Body: kept})
	return accepted, nil
}

func repeated(ctx context.Context) bool {
	once := requestOf(ctx).once
	return once != nil && once.first != nil
}

func acceptedAnswer(accepted chatAccepted) func(huma.Context) {
	return func(ctx huma.Context) {
		_ = fiberOf(ctx).Status(http.StatusAccepted).JSON(accepted)
	}
}

func (s *server) stopChat(ctx context.Context, in *struct {
	SessionRef
	Body *struct {
		Scope *string `json:"scope,omitempty" nullable:"true" enum:"chat,chat_and_queue" doc:"chat (default), or chat_and_queue: queued messages are dropped too."`
	}
},
) (*body[stopBody], error) {
	andQueue := in.Body != nil && value(in.Body.Scope) == "chat_and_queue"
	caller := callerOf(ctx)
	if _, err := s.Store.OwnSession(ctx, caller.User, in.SessionID); err != nil {
		return nil, err
	}
	stopped, err := s.Desk.Stop(ctx, caller, in.SessionID, andQueue)
	return answer(stopBody{stopped}, err)
}

// deliver parses the body as the socket does and hands it to the desk.
func (s *server) deliver(ctx context.Context, in *chatInput) (chatAccepted, error) {
	said, err := realtime.ParseSend(in.Body)
	if err != nil {
		return chatAccepted{}, err
	}
	if said.SessionID != "" && said.SessionID != in.SessionID {
		return chatAccepted{}, domain.Invalidf("body.session_id", "is not the session of the path")
	}
	caller := callerOf(ctx)
	if said.Answer != nil {
		ack, err := s.Desk.Answer(ctx, caller, in.SessionID, *said.Answer)
		return chatAccepted{ChatID: ack.ChatID, Resolved: &ack.Resolved, QuestionID: ack.QuestionID}, err
	}
	send := said.Send
	send.SessionID = in.SessionID
	if send.Trigger == domain.TriggerUser {
		send.Trigger = domain.TriggerAPI
	}
	if once := requestOf(ctx).once; once != nil && send.ClientMessageID == "" {
		send.ClientMessageID = once.messageID()
	}
	ack, err := s.Desk.Send(ctx, caller, send)
	return chatAccepted{
		ChatID: ack.ChatID, TurnID: ack.TurnID, DeliveryApplied: ack.DeliveryApplied, Position: &ack.Position, Duplicate: &ack.Duplicate,
	}, err
}
