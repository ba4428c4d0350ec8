package realtime_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"everloop/domain"
	"everloop/realtime"
)

func TestParseSendMessages(t *testing.T) {
	words := func(s string) []domain.ContentPart { return []domain.ContentPart{{Type: "text", Text: s}} }
	for body, want := range map[string]domain.Send{
		`{"session_id":"s","message":"hi","unknown":{"a":1}}`: {SessionID: "s", Message: words("hi"), Delivery: "enqueue", Trigger: "user"},
		`{"message":"hi","mode":null,"whatif":null,"headless":null,"delivery":null,"askuser_answer":null,"output_schema":null}`: {
			Message: words("hi"), Delivery: "enqueue", Trigger: "user"},
		`{"session_id":"s","message":" a\u0000b ","mode":"planning","headless":true,"delivery":"steer","client_message_id":"m1"}`: {
			SessionID: "s", Message: words(" a\uFFFDb "), Mode: "planning", Headless: true, Delivery: "steer", ClientMessageID: "m1", Trigger: "user"},
		`{"message":[{"type":"text","text":""},{"type":"image_url","image_url":{"url":"data:image/png;base64,AAAA"}}]}`: {
			Message:  []domain.ContentPart{{Type: "text"}, {Type: "image_url", ImageURL: &domain.ImageURL{URL: "data:image/png;base64,AAAA"}}},
			Delivery: "enqueue", Trigger: "user"},
		`{"message":[{"type":"image_url","image_url":{"url":"https://x.example/a.png"}}],"delivery":"reject"}`: {
			Message:  []domain.ContentPart{{Type: "image_url", ImageURL: &domain.ImageURL{URL: "https://x.example/a.png"}}},
			Delivery: "reject", Trigger: "user"},
		`{"message":"","whatif":{"from_step":0}}`: {Whatif: &domain.Whatif{}, Delivery: "enqueue", Trigger: "whatif"},
		`{"message":"x","whatif":{"from_step":2,"quotes":[{"entry_id":"e","text":"q"}],"deprecate_entry_ids":["e"]}}`: {
			Message: words("x"), Delivery: "enqueue", Trigger: "whatif",
			Whatif: &domain.Whatif{FromStep: 2, Quotes: []domain.Quote{{EntryID: "e", Text: "q"}}, DeprecateEntryIDs: []string{"e"}}},
		`{"message":"x","output_schema":{"type":"object"}}`: {
			Message: words("x"), Delivery: "enqueue", Trigger: "user", Headless: true, OutputSchema: json.RawMessage(`{"type":"object"}`)},
	} {
		got, err := realtime.ParseSend(json.RawMessage(body))
		require.NoError(t, err, body)
		require.Nil(t, got.Answer)
		require.Equal(t, want, got.Send, body)
		require.Equal(t, want.SessionID, got.SessionID)
	}
}

func TestParseSendAnswers(t *testing.T) {
	got, err := realtime.ParseSend(json.RawMessage(
		`{"session_id":"s","message":"","askuser_answer":{"tool_call_id":"c","selections":{"0":[1,0],"2":[]},"custom":{"1":"mine","2":"x","3":"","4":null}}}`))
	require.NoError(t, err)
	require.Equal(t, &domain.Answer{
		ToolCallID: "c", Selections: map[string][]int{"0": {1, 0}}, Custom: map[string]string{"1": "mine", "2": "x"},
	}, got.Answer)
}

func TestParseSendRefuses(t *testing.T) {
	answer := func(a string) string { return `{"message":"","askuser_answer":` + a + `}` }
	for body, code := range map[string]string{
		``: "invalid_request", `null`: "invalid_request", `[]`: "invalid_request", `"x"`: "invalid_request", `{"a"`: "invalid_request",
		`{}`: "invalid_request", `{"message":""}`: "invalid_request", `{"message":"  \n"}`: "invalid_request", `{"message":null}`: "invalid_request",
		`{"message":5}`: "invalid_request", `{"message":{}}`: "invalid_request", `{"message":[]}`: "invalid_request",
		`{"message":["x"]}`: "invalid_request", `{"message":[{"type":"text","text":" "}]}`: "invalid_request",
		`{"message":[{"type":"text"}]}`: "invalid_request", `{"message":[{"text":"x"}]}`: "invalid_request",
		`{"message":[{"type":"video","text":"x"}]}`: "invalid_request", `{"message":[{"type":"text","text":5}]}`: "invalid_request",
		`{"message":[{"type":"image_url"}]}`: "invalid_request", `{"message":[{"type":"image_url","image_url":"x"}]}`: "invalid_request",
		`{"message":[{"type":"image_url","image_url":{"url":"file:///etc/passwd"}}]}`:     "invalid_request",
		`{"message":[{"type":"image_url","image_url":{"url":"data:image/png,AAAA"}}]}`:    "invalid_request",
		`{"message":[{"type":"image_url","image_url":{"url":"data:image/png;base64,"}}]}`: "invalid_request",
		`{"message":[{"type":"image_url","image_url":{"url":""}}]}`:                       "invalid_request",
		`{"message":"x","session_id":5}`:                                                  "invalid_request",
		`{"message":"x","mode":"dreaming"}`:                                               "invalid_request",
		`{"message":"x","mode":5}`:                                                        "invalid_request",
		`{"message":"x","delivery":"later"}`:                                              "invalid_request",
		`{"message":"x","delivery":"run"}`:                                                "invalid_request",
		`{"message":"x","headless":"yes"}`:                                                "invalid_request",
		`{"message":"x","client_message_id":7}`:                                           "invalid_request",
		`{"message":"x","client_message_id":"` + strings.Repeat("x", 201) + `"}`:          "invalid_request",
		`{"message":"x","output_schema":"object"}`:                                        "invalid_request",
		`{"message":"x","output_schema":[1]}`:                                             "invalid_request",
		`{"message":"x","output_schema":{"type":"nonsense"}}`:                             "invalid_schema",
		`{"message":"x","output_schema":{"$ref":"http://x.example/s.json"}}`:              "invalid_schema",
		`{"message":"x","whatif":5}`:                                                      "invalid_request",
		`{"message":"x","whatif":{}}`:                                                     "invalid_request",
		`{"message":"x","whatif":{"from_step":-1}}`:                                       "invalid_request",
		`{"message":"x","whatif":{"from_step":1.5}}`:                                      "invalid_request",
		`{"message":"x","whatif":{"from_step":"1"}}`:                                      "invalid_request",
		`{"message":"x","whatif":{"from_step":1,"quotes":"q"}}`:                           "invalid_request",
		`{"message":"x","whatif":{"from_step":1,"quotes":["q"]}}`:                         "invalid_request",
		`{"message":"x","whatif":{"from_step":1,"deprecate_entry_ids":[1]}}`:              "invalid_request",
		`{"message":"","whatif":{"from_step":1},"askuser_answer":{"tool_call_id":"c"}}`:   "invalid_request",
		answer(`"yes"`):                                            "invalid_request",
		answer(`{"selections":{"0":[0]}}`):                         "invalid_request",
		answer(`{"tool_call_id":5,"selections":{"0":[0]}}`):        "invalid_request",
		answer(`{"tool_call_id":"c","selections":[0]}`):            "invalid_request",
		answer(`{"tool_call_id":"c","custom":"x"}`):                "invalid_request",
		answer(`{"tool_call_id":"c"}`):                             "invalid_answer",
		answer(`{"tool_call_id":"c","selections":{"0":[]}}`):       "invalid_answer",
		answer(`{"tool_call_id":"c","selections":{"0":["Red"]}}`):  "invalid_answer",
		answer(`{"tool_call_id":"c","selections":{"0":0}}`):        "invalid_answer",
		answer(`{"tool_call_id":"c","selections":{"0":[-1]}}`):     "invalid_answer",
		answer(`{"tool_call_id":"c","selections":{"0":[null]}}`):   "invalid_answer",
		answer(`{"tool_call_id":"c","selections":{"Which?":[0]}}`): "invalid_answer",
		answer(`{"tool_call_id":"c","selections":{"00":[0]}}`):     "invalid_answer",
		answer(`{"tool_call_id":"c","custom":{"0":5}}`):            "invalid_answer",
		answer(`{"tool_call_id":"c","custom":{"x":"y"}}`):          "invalid_answer",
		answer(`{"tool_call_id":"c","custom":{"0":" "}}`):          "invalid_answer",
	} {
		_, err := realtime.ParseSend(json.RawMessage(body))
		require.Error(t, err, body)
		require.Equal(t, code, domain.AsError(err).Code, "%s: %v", body, err)
		require.Equal(t, domain.Invalid, domain.AsError(err).Kind, body)
	}
}

func TestParseSendNamesThePlace(t *testing.T) {
	for body, location := range map[string]string{
		`{}`: "body.message",
		`{"message":[{"type":"text","text":"x"},5]}`:                                  "body.message[1]",
		`{"message":[{"type":"text","text":"x"},{"type":"text"}]}`:                    "body.message[1].text",
		`{"message":[{"type":"image_url","image_url":{}}]}`:                           "body.message[0].image_url.url",
		`{"message":"x","whatif":{"from_step":1,"quotes":[{"text":"q"},{}]}}`:         "body.whatif.quotes[1].text",
		`{"message":"x","output_schema":{"type":"nonsense"}}`:                         "body.output_schema",
		`{"message":"","askuser_answer":{"tool_call_id":"c","selections":{"0":[9,]}}`: "body",
		`{"message":"","askuser_answer":{"tool_call_id":"c","selections":{"0":"x"}}}`: "body.askuser_answer.selections",
	} {
		_, err := realtime.ParseSend(json.RawMessage(body))
		require.Len(t, domain.AsError(err).Fields, 1, body)
		require.Equal(t, location, domain.AsError(err).Fields[0].Location, body)
	}
}

func FuzzParseSend(f *testing.F) {
	f.Add(`{"session_id":"s","message":[{"type":"text","text":"x"}],"askuser_answer":{"tool_call_id":"c","selections":{"0":[1]}}}`)
	f.Fuzz(func(t *testing.T, body string) {
		got, err := realtime.ParseSend(json.RawMessage(body))
		if err == nil && got.Answer == nil && got.Send.Whatif == nil && len(got.Send.Message) == 0 {
			t.Fatal("an empty message was accepted")
		}
	})
}
