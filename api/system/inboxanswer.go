package system

import (
	"context"
	"encoding/json"
	"errors"
	"strings"

	"everloop/api/httpx"
	"everloop/chatrequest"
	"everloop/domain"
)

// QuestionRef names a question of the inbox.
type QuestionRef struct {
	QuestionID string `path:"question_id" maxLength:"128" doc:"The question." example:"01a1ff63-403d-71f7-91f5-bf8d694cd459"`
}

// answered says what became of an answer.
type answered struct {
	QuestionID string        `json:"question_id" doc:"The question." example:"01a1ff63-403d-71f7-91f5-bf8d694cd459"`
	ChatID     domain.ChatID `json:"chat_id" doc:"Its chat." example:"01a1ff63-4015-7d95-9d72-d4880215462d"`
	Resolved   bool          `json:"resolved" doc:"Whether this answer is the one that counts; false: the question was resolved before."`
}

// answer answers a question that is named by its own id.
func (a *runsAPI) answer(ctx context.Context, in *struct {
	QuestionRef
	Body json.RawMessage `required:"true"`
},
) (*httpx.Body[answered], error) {
	given, err := chatrequest.ParseInboxAnswer(in.Body)
	if err != nil {
		return nil, inBody(err)
	}

	ack, err := a.respond(ctx, httpx.CallerOf(ctx), in.QuestionID, *given)

	return httpx.Answer(answered{ack.QuestionID, ack.ChatID, ack.Resolved}, inBody(err))
}

// inBody names the fields of a wrong answer as this body has them.
func inBody(err error) error {
	wrong, ok := errors.AsType[*domain.Error](err)
	if !ok || wrong.Code != domain.CodeInvalidAnswer {
		return err
	}

	moved := *wrong
	moved.Message = strings.Replace(wrong.Message, "body.askuser_answer", "body", 1)

	moved.Fields = nil
	for _, field := range wrong.Fields {
		field.Location = strings.Replace(field.Location, "body.askuser_answer", "body", 1)
		moved.Fields = append(moved.Fields, field)
	}

	return &moved
}
