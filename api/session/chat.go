package session

import (
	"context"
	"encoding/json"
	"net/http"
	"reflect"

	"github.com/danielgtaylor/huma/v2"
	"github.com/gofiber/fiber/v2"

	"everloop/api/access"
	"everloop/api/fields"
	"everloop/api/httpx"
	"everloop/auth"
	"everloop/chatrequest"
	"everloop/domain"
	"everloop/realtime"
)

// chatAccepted is the answer to a message or an answer once it is durable.
type chatAccepted struct {
	ChatID          domain.ChatID   `json:"chat_id" doc:"The chat." example:"01a1ff63-2fac-7093-a476-c6dcf5b7aa70"`
	TurnID          domain.TurnID   `json:"turn_id,omitempty" doc:"The turn." example:"01a1ff63-2fac-7096-830e-1db76b97e009"`
	DeliveryApplied domain.Delivery `json:"delivery_applied,omitempty" enum:"run,enqueue,steer,interrupt" doc:"The delivery that was applied."`
	Position        *int            `json:"position,omitempty" doc:"Place in the queue; 0: not queued." example:"0"`
	Duplicate       *bool           `json:"duplicate,omitempty" doc:"The message had been sent before; nothing runs twice."`
	Resolved        *bool           `json:"resolved,omitempty" doc:"Whether this answer is the one that counts."`
	QuestionID      string          `json:"question_id,omitempty" doc:"The question."`
}

type stopBody struct {
	Stopped bool `json:"stopped" doc:"Whether a chat was stopped."`
}

type chatInput struct {
	access.SessionRef
	Accept string          `header:"Accept" doc:"text/event-stream: the response is a stream of server-sent events." example:"application/json"`
	Body   json.RawMessage `required:"true"`
}

// ChatAPI takes messages and stops chats.
type ChatAPI struct {
	access.Sessions
	Follower
	Chats realtime.Chats
}

// Register adds the operations of the area to the interface.
func (a *ChatAPI) Register(r *httpx.Server) {
	httpx.Register(r, httpx.Operation{
		ID: "send-chat", Method: fiber.MethodPost, Path: "/api/sessions/{session_id}/chat", Tag: "Chat",
		Summary: "Send a message, or answer a question",
		Description: "202 means that the message is stored durably. The same client_message_id, or Idempotency-Key, denotes the same " +
			"message. With Accept: text/event-stream the response is the stream of the chat's events, up to its chat:end.",
		Scope: auth.Chat, Status: http.StatusAccepted, Stream: true, Repeats: true,
		Errors: httpx.Codes{409: "session_busy", 422: "unknown_model invalid_answer invalid_schema"},
		Replies: []httpx.Reply{
			httpx.JSONReply[chatAccepted](http.StatusAccepted), {
				Status: http.StatusOK, Types: []string{"text/event-stream"},
				Example: "id: 118\nevent: chat:start\ndata: " +
					"{\"seq\":118,\"prev_seq\":117,\"chat_id\":\"01a1ff63-2f52-7098-bf53-c61241190a6f\"}\n\n",
			},
		},
		Body:    reflect.TypeFor[chatrequest.ChatBody](),
		Example: `{"message": "Summarise the changes of June.", "client_message_id": "m-1", "delivery": "enqueue"}`,
	}, a.chat)
	httpx.Register(r, httpx.Operation{
		ID: "stop-chat", Method: fiber.MethodPost, Path: "/api/sessions/{session_id}/stop", Tag: "Chat",
		Summary: "Stop the running chat",
		Description: "The running chat ends as interrupted and keeps the text written so far. Queued messages stay, unless scope is " +
			"chat_and_queue.",
		Scope:   auth.Chat,
		Example: `{"scope": "chat_and_queue"}`,
	}, a.stopChat)
}

// chat makes a message durable and answers 202, or follows the chat to its end
// when the client takes events.
func (a *ChatAPI) chat(ctx context.Context, in *chatInput) (*httpx.Streamed, error) {
	caller := httpx.CallerOf(ctx)

	session, err := a.OwnRun(ctx, in.SessionID)
	if err != nil {
		return nil, err
	}

	if !httpx.RequestOf(ctx).Events {
		accepted, err := a.accept(ctx, in, session)
		return &httpx.Streamed{Body: acceptedAnswer(accepted)}, err
	}

	subscription, err := a.Subscribe(ctx, in.SessionID, nil) // before the message, so that nothing is missed
	if err != nil {
		return nil, err
	}

	accepted, err := a.accept(ctx, in, session)
	if err != nil || accepted.Resolved != nil && !*accepted.Resolved { // an answer that came too late starts nothing
		subscription.Close()
		return &httpx.Streamed{Body: acceptedAnswer(accepted)}, err
	}

	again := fields.Value(accepted.Duplicate) || repeated(ctx)
	if again { // the events before are sent again, from the chat's start
		subscription.Close()

		var all uint64
		if subscription, err = a.Subscribe(ctx, in.SessionID, &all); err != nil {
			return nil, err
		}
	}

	return &httpx.Streamed{Body: func(ctx huma.Context) {
		stay := a.mayStay(caller, in.SessionID, domain.ViewerOwner)
		a.Streams.Open(ctx, func(ctx context.Context, out *httpx.EventStream) error {
			defer subscription.Close()

			return a.follow(ctx, out, in.SessionID, subscription, stay, func(e domain.LoggedEvent) (send, last bool) {
				ours := e.ChatID == accepted.ChatID
				again = again && !(ours && e.Name == domain.EventChatStart)
				// All events of the session, so that the chain of prev_seq is whole.
				return !again, ours && e.Name == domain.EventChatEnd
			})
		})
	}}, nil
}

// accept parses the body and passes it to the chat service, once for an Idempotency-Key.
func (a *ChatAPI) accept(ctx context.Context, in *chatInput, session domain.SessionRun) (chatAccepted, error) {
	once := httpx.RequestOf(ctx).Once

	var accepted chatAccepted
	if repeated(ctx) {
		return accepted, json.Unmarshal(once.First.Body, &accepted)
	}

	ctx, cancel := context.WithTimeout(ctx, httpx.RequestTimeout)
	defer cancel()

	accepted, err := a.deliver(ctx, in, session)
	if err != nil {
		return accepted, err
	}

	kept, err := json.Marshal(accepted)
	if err != nil {
		return accepted, err
	}

	once.Keep(&domain.StoredAnswer{Status: http.StatusAccepted, ContentType: fiber.MIMEApplicationJSON, Body: kept})

	return accepted, nil
}

func repeated(ctx context.Context) bool {
	once := httpx.RequestOf(ctx).Once
	return once != nil && once.First != nil
}

func acceptedAnswer(accepted chatAccepted) func(huma.Context) {
	return func(ctx huma.Context) {
		_ = httpx.FiberOf(ctx).Status(http.StatusAccepted).JSON(accepted)
	}
}

func (a *ChatAPI) stopChat(ctx context.Context, in *struct {
	access.SessionRef
	Body *chatrequest.StopScope
},
) (*httpx.Body[stopBody], error) {
	session, err := a.OwnRun(ctx, in.SessionID)
	if err != nil {
		return nil, err
	}

	stopped, err := a.Chats.StopIn(ctx, httpx.CallerOf(ctx), session, in.Body != nil && in.Body.AndQueue())

	return httpx.Answer(stopBody{stopped}, err)
}

// deliver parses the body and passes it to the chat service.
func (a *ChatAPI) deliver(ctx context.Context, in *chatInput, session domain.SessionRun) (chatAccepted, error) {
	said, err := chatrequest.ParseChat(in.Body)
	if err != nil {
		return chatAccepted{}, err
	}

	if said.SessionID != "" && said.SessionID != in.SessionID {
		return chatAccepted{}, domain.Invalidf("body.session_id", "is not the session of the path")
	}

	caller := httpx.CallerOf(ctx)
	if said.Answer != nil {
		ack, err := a.Chats.AnswerIn(ctx, caller, session, *said.Answer)
		return chatAccepted{ChatID: ack.ChatID, Resolved: &ack.Resolved, QuestionID: ack.QuestionID}, err
	}

	send := said.Send
	if send.Trigger == domain.TriggerUser {
		send.Trigger = domain.TriggerAPI
	}

	if once := httpx.RequestOf(ctx).Once; once != nil && send.ClientMessageID == "" {
		send.ClientMessageID = once.MessageID()
	}

	ack, err := a.Chats.SendTo(ctx, caller, session, send)

	return chatAccepted{
		ChatID: ack.ChatID, TurnID: ack.TurnID, DeliveryApplied: ack.DeliveryApplied, Position: &ack.Position, Duplicate: &ack.Duplicate,
	}, err
}
