package api_test

import (
	"context"

	"everloop/domain"
)

// contexts is a session's context that has nothing in it.
type contexts struct{}

func (contexts) Request(context.Context, domain.Caller, domain.SessionID) (string, error) {
	return "c", nil
}

func (contexts) Await(context.Context, domain.Caller, string) (domain.CompactionResult, error) {
	return domain.CompactionResult{CompactionID: "c", Status: domain.CompactionSkipped, Reason: "there is nothing to summarise"}, nil
}

func (contexts) ContextStats(context.Context, domain.Session) (domain.ContextStats, error) {
	return domain.ContextStats{Model: "m-1", Categories: []domain.ContextCategory{}, Largest: []domain.ContextEntry{}}, nil
}

var contextWalk = []call{
	{
		method:  "POST",
		path:    "/api/sessions/{session_id}/compact",
		scope:   "chat",
		url:     "/api/sessions/{s}/compact",
		status:  200,
		missing: "/api/sessions/" + none + "/compact",
	},
	{
		method:  "GET",
		path:    "/api/sessions/{session_id}/context-stats",
		scope:   "sessions:read",
		url:     "/api/sessions/{s}/context-stats",
		status:  200,
		missing: "/api/sessions/" + none + "/context-stats",
	},
	{
		method:  "POST",
		path:    "/api/sessions/tokenize/prompt",
		scope:   "sessions:read",
		url:     "/api/sessions/tokenize/prompt",
		hasBody: true,
		status:  200,
		body:    `{"prompt":"hello","model":"gpt-4o"}`,
		bad: []bad{
			{body: `{}`, at: "body.prompt"},
			{body: `{"prompt":null}`, at: "body.prompt"},
			{body: `{"prompt":7}`, at: "body.prompt"},
			{body: `{"prompt":"x","model":7}`, at: "body.model"},
		},
	},
	{
		method:  "POST",
		path:    "/api/sessions/tokenize/messages",
		scope:   "sessions:read",
		url:     "/api/sessions/tokenize/messages",
		hasBody: true,
		status:  200,
		body:    `{"messages":[{"role":"user","content":"hello"}]}`,
		bad: []bad{
			{body: `{}`, at: "body.messages"},
			{body: `{"messages":"x"}`, at: "body.messages"},
			{body: `{"messages":[{}]}`, at: "body.messages[0].role"},
			{body: `{"messages":[{"role":"user","content":7}]}`, at: "body.messages[0].content"},
			{body: `{"messages":[{"role":"user","content":[{"type":"x"}]}]}`, at: "body.messages[0].content[0]"},
			{body: `{"messages":[],"tools":[7]}`, at: "body.tools[0]"},
			{body: `{"messages":[],"add_generation_prompt":"yes"}`, at: "body.add_generation_prompt"},
		},
	},
}
