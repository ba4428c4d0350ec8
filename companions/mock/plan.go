package mock

import (
	"encoding/json"
	"fmt"
	"net/http"
)

// plan is a decided answer: a step, and whether it comes at reading speed.
type plan struct {
	Step
	paced bool
}

// decide gives the answer to a request. It depends on the request only.
func decide(req *chatRequest) (plan, *apiError) {
	model, _ := findModel(req.Model) // parseRequest knows it
	separated := *req
	separated.Messages = separate(req.Messages)
	talk := newConversation(&separated)

	var (
		script *Script
		at     int
	)

	if talk.task == taskNone || talk.task == taskPage { // a title or summary may quote a script
		var fault *apiError
		if script, at, fault = findScript(separated.Messages); fault != nil {
			return plan{}, fault
		}
	}

	if tokens := req.promptTokens(); tokens > model.ContextWindow {
		return plan{}, &apiError{
			Status: http.StatusBadRequest, Type: "invalid_request_error", Code: "context_length_exceeded",
			Message: fmt.Sprintf(
				"This model's maximum context length is %d tokens. However, your messages resulted in %d tokens.",
				model.ContextWindow,
				tokens,
			),
		}
	}

	p := plan{paced: true}

	ordered := orderedSummary(talk)
	switch {
	case ordered != nil:
		p = plan{Step: *ordered}
	case script != nil:
		p = plan{Step: script.step(answersAfter(separated.Messages, at))}
	case req.Model == EchoModel:
		p = plan{Step: Step{Echo: true}}
	default:
		p.Step = demoStep(talk)
	}

	if p.Echo {
		p.Text = echo(req)
	}

	if !req.thinks() {
		p.Thinking = ""
	}

	return p, nil
}

// answersAfter counts the assistant messages after a message that holds a script,
// those that a summary stands for included.
func answersAfter(messages []chatMessage, at int) int {
	n := answersSummarised(messages, scriptName(string(messages[at].Content)))
	for _, m := range messages[at+1:] {
		if m.Role == "assistant" {
			n++
		}
	}

	return n
}

// echo shows what of a request reached the model.
func echo(req *chatRequest) string {
	text, _ := json.MarshalIndent(map[string]any{ // strings and names always encode
		"model": req.Model, "stream": req.Stream, "messages": req.Messages,
		"tools": req.toolNames(), "response_schema": req.schema(),
	}, "", "  ")

	return string(text)
}
