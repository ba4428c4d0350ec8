package systemtest

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"everloop/activities/tools"
	"everloop/domain"
	"everloop/infra/postgres/pgtest"
)

// shot is an image as far as its type is concerned.
const shot = "\x89PNG\r\n\x1a\n0123456789"

// camera provides a tool whose result is text and two images.
type camera struct{}

func (camera) Tools(context.Context, tools.Scope) []tools.Tool {
	tool, err := tools.Prepare(tools.Tool{
		Name: "Camera", DisplayName: "Camera", Executing: true,
		Spec: domain.ToolSpec{Name: "Camera", Description: "Takes pictures.", Parameters: json.RawMessage(`{"type":"object"}`)},
		Run: func(context.Context, *tools.Call) (tools.Result, error) {
			return tools.Result{
				Output: "taken",
				Images: []tools.Image{{MIME: "image/png", Data: []byte(shot)}, {MIME: "image/png", Data: []byte(shot + "2")}},
			}, nil
		},
	})
	if err != nil {
		panic(err)
	}

	return []tools.Tool{tool}
}

// shownTo gives all texts and images that a request has for its model.
func shownTo(messages []any) (texts string, images []string) {
	for _, m := range messages {
		content := m.(obj)["content"]
		if text, alone := content.(string); alone {
			texts += text
		}

		parts, _ := content.([]any)
		for _, p := range parts {
			switch part := p.(obj); part["type"] {
			case "image_url":
				images = append(images, part["image_url"].(obj)["url"].(string))
			case "text":
				texts += part["text"].(string)
			}
		}
	}

	return texts, images
}

// The images of a result are stored once, next to the history, and reach a model that takes
// images. A model of which that is not known, and which refuses them, is called without.
func TestImagesOfResults(t *testing.T) {
	t.Parallel()

	prompts := make(chan []any, 16)
	photograph := func(w http.ResponseWriter, r request) bool {
		if r.n == 1 {
			say(w, toolCall(0, "Camera", `{}`), finish("tool_calls"))
			return true
		}

		prompts <- r.messages

		return false
	}

	s := newStack(t)
	server := newFaultServer(t, map[string]faultCase{
		"sees": {answer: func(w http.ResponseWriter, r request) {
			if !photograph(w, r) {
				say(w, text("a picture"), finish("stop"))
			}
		}},
		"blind": {answer: func(w http.ResponseWriter, r request) {
			if photograph(w, r) {
				return
			}

			if _, images := shownTo(r.messages); len(images) > 0 {
				refusal(w, http.StatusBadRequest, "", "this is not a multimodal model")
				return
			}

			say(w, text("nothing"), finish("stop"))
		}},
	})

	s.acts.Tools.Tools.Provide(camera{})
	s.useModels(server.URL)

	url := "data:image/png;base64," + base64.StdEncoding.EncodeToString([]byte(shot))

	session := s.onModel("sees", domain.SessionSetup{})
	require.Equal(t, "completed", s.talk(session, "look")["finish_reason"])

	texts, images := shownTo(<-prompts)
	require.Len(t, images, 2)
	require.Equal(t, url, images[0])
	require.Contains(t, texts, "Image 2 of the result of Camera:")
	require.Equal(t, 2, server.count("sees"))

	call := s.messages(session)[1].ToolCalls[0]
	require.Equal(t, "taken", call.Result)
	require.Len(t, call.Images, 2)
	require.Equal(
		t,
		domain.CallImage{Attachment: call.Images[0].Attachment, MimeType: "image/png", Bytes: int64(len(shot))},
		call.Images[0],
	)

	stored, err := s.acts.Model.Prompts.Images.DataURL(t.Context(), domain.AttachmentKey(session, call.Images[0].Attachment))
	require.NoError(t, err)
	require.Equal(t, url, stored)

	held, err := s.journal.ImageBytes(t.Context(), session)
	require.NoError(t, err)
	require.EqualValues(t, 2*len(shot)+1, held)

	named := 0

	for _, e := range s.events(session) {
		require.NotContains(t, string(e.Data), base64.StdEncoding.EncodeToString([]byte(shot)), "events only name images")
		named += strings.Count(string(e.Data), call.Images[1].Attachment)
	}

	require.Equal(t, 1, named, "the event of the result names them")
	s.checkEvents(session)

	session = s.onModel("blind", domain.SessionSetup{})
	require.Equal(t, "completed", s.talk(session, "look")["finish_reason"])

	_, images = shownTo(<-prompts)
	require.Len(t, images, 2, "it is tried")

	texts, images = shownTo(<-prompts)
	require.Empty(t, images)
	require.Contains(t, texts, "[2 images of the result of Camera left out: the model server refused them]")
	require.Equal(t, 3, server.count("blind"))
}

// What a chat reads of its calls has their images, whether this process or another one
// recorded them.
func TestTranscript_hasImagesOfResults(t *testing.T) {
	t.Parallel()
	j, _, session := pgtest.Session(t)
	chat := pgtest.History(t, j, session, 4)
	images := []domain.CallImage{{Attachment: strings.Repeat("0a", 32), MimeType: "image/png", Bytes: 7}}
	_, err := j.Pool.Exec(t.Context(), `UPDATE tool_calls SET images = $2 WHERE id = 'call-' || $1 || '-3'`, chat, images)
	require.NoError(t, err)

	transcript, err := j.Transcript(
		t.Context(), domain.TranscriptQuery{ChatID: chat, BranchID: session.ActiveBranchID, LoopID: domain.RootLoop, Before: 1 << 40},
	)
	require.NoError(t, err)
	require.Empty(t, transcript.Turns[1].Calls[0].Images)
	require.Equal(t, images, transcript.Turns[3].Calls[0].Images)

	weight, err := j.Weigh(t.Context(), domain.TurnKey{SessionID: session.ID, ChatID: chat, LoopID: domain.RootLoop, Step: 5})
	require.NoError(t, err)
	require.EqualValues(t, 1, weight.Images)
}
