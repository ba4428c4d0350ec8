package chatrequest_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"everloop/chatrequest"
	"everloop/domain"
)

func TestParseChat_messages(t *testing.T) {
	t.Parallel()

	words := func(s string) []domain.ContentPart { return []domain.ContentPart{{Type: "text", Text: s}} }
	for body, want := range map[string]domain.Send{
		`{"session_id":"s","message":"hi","unknown":{"a":1}}`: {SessionID: "s", Message: words("hi"), Delivery: "enqueue", Trigger: "user"},
		`{"message":"hi","mode":null,"whatif":null,"headless":null,"delivery":null,"askuser_answer":null,"output_schema":null}`: {
			Message: words("hi"), Delivery: "enqueue", Trigger: "user",
		},
		`{"session_id":"s","message":" a\u0000b ","mode":"planning","headless":true,"delivery":"steer","client_message_id":"m1"}`: {
			SessionID: "s", Message: words(" a\uFFFDb "), Mode: "planning", Headless: true, Delivery: "steer",
			ClientMessageID: "m1", Trigger: "user",
		},
		`{"message":[{"type":"text","text":""},{"type":"image_url","image_url":{"url":"data:image/png;base64,AAAA"}}]}`: {
			Message: []domain.ContentPart{{Type: "text"}, {
				Type:     "image_url",
				ImageURL: &domain.ImageURL{URL: "data:image/png;base64,AAAA"},
			}},
			Delivery: "enqueue", Trigger: "user",
		},
		`{"message":[{"type":"image_url","image_url":{"url":"/api/sessions/s-1/attachments/` + strings.Repeat("0a", 32) + `"}}]}`: {
			Message: []domain.ContentPart{{
				Type:     "image_url",
				ImageURL: &domain.ImageURL{URL: "/api/sessions/s-1/attachments/" + strings.Repeat("0a", 32)},
			}},
			Delivery: domain.DeliverEnqueue, Trigger: domain.TriggerUser,
		},
		`{"message":[{"type":"image_url","image_url":{"url":"https://x.example/a.png"}}],"delivery":"reject"}`: {
			Message:  []domain.ContentPart{{Type: "image_url", ImageURL: &domain.ImageURL{URL: "https://x.example/a.png"}}},
			Delivery: "reject", Trigger: "user",
		},
		`{"message":"","whatif":{"from_step":0}}`: {Whatif: &domain.Whatif{}, Delivery: "enqueue", Trigger: "whatif"},
		`{"message":"x","whatif":{"from_step":2,"quotes":[{"entry_id":"e","text":"q"}],"deprecate_entry_ids":["e"]}}`: {
			Message: words("x"), Delivery: "enqueue", Trigger: "whatif",
			Whatif: &domain.Whatif{FromStep: 2, Quotes: []domain.Quote{{EntryID: "e", Text: "q"}}, DeprecateEntryIDs: []domain.TurnID{"e"}},
		},
		`{"message":"x","output_schema":{"type":"object"}}`: {
			Message: words("x"), Delivery: "enqueue", Trigger: "user", Headless: true, OutputSchema: json.RawMessage(`{"type":"object"}`),
		},
	} {
		got, err := chatrequest.ParseChat(json.RawMessage(body))
		require.NoError(t, err, body)
		require.Nil(t, got.Answer)
		require.Equal(t, want, got.Send, body)
		require.Equal(t, want.SessionID, got.SessionID)
	}
}

func TestParseChat_answers(t *testing.T) {
	t.Parallel()

	got, err := chatrequest.ParseChat(json.RawMessage(
		`{"session_id":"s","message":"","askuser_answer":{"tool_call_id":"c","selections":{"0":[1,0],"2":[]},"custom":{"1":"mine",` +
			`"2":"x","3":"","4":null}}}`,
	))
	require.NoError(t, err)
	require.Equal(t, &domain.Answer{
		ToolCallID: "c", Selections: map[string][]int{"0": {1, 0}}, Custom: map[string]string{"1": "mine", "2": "x"},
	}, got.Answer)
}

func TestParseChat_notJSON(t *testing.T) {
	t.Parallel()

	for _, body := range []string{
		``, `{"a"`, `{"message":"x"`,
		`{"message":"","askuser_answer":{"tool_call_id":"c","selections":{"0":[9,]}}`,
	} {
		_, err := chatrequest.ParseChat(json.RawMessage(body))
		require.EqualError(t, err, "body: must be an object", body)
	}
}

func FuzzParseChat(f *testing.F) {
	f.Add(`{"session_id":"s","message":[{"type":"text","text":"x"}],"askuser_answer":{"tool_call_id":"c","selections":{"0":[1]}}}`)
	f.Fuzz(func(t *testing.T, body string) {
		got, err := chatrequest.ParseChat(json.RawMessage(body))
		if err == nil && got.Answer == nil && got.Send.Whatif == nil && len(got.Send.Message) == 0 {
			t.Fatal("an empty message was accepted")
		}
	})
}
