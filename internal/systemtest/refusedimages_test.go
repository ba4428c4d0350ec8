package systemtest

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"everloop/activities/tools"
	"everloop/domain"
)

// pictureURL returns a picture that differs from those with other names.
func pictureURL(name string) string {
	return "data:image/png;base64," + base64.StdEncoding.EncodeToString([]byte(shot+name))
}

// sendImage sends a message with a picture of this name.
func (s *stack) sendImage(session domain.SessionID, text, picture string) domain.SendAck {
	s.t.Helper()
	ack, err := s.chats.Send(s.t.Context(), s.caller, domain.Send{
		SessionID: session, Delivery: domain.DeliverEnqueue, Trigger: domain.TriggerUser,
		Message: []domain.ContentPart{
			{Type: "text", Text: text},
			{Type: "image_url", ImageURL: &domain.ImageURL{URL: pictureURL(picture)}},
		},
	})
	require.NoError(s.t, err)

	return ack
}

// TestChat_refusedImages holds that a chat continues without an image that the model server
// refuses, says so, and that later messages work.
func TestChat_refusedImages(t *testing.T) {
	t.Parallel()
	s := newStack(t)

	refuses := func(status int, when func(prompt string) bool) func(http.ResponseWriter, request) {
		return func(w http.ResponseWriter, r request) {
			if when(jsonText(r.messages)) {
				refusal(w, status, "", "image input is not supported")
				return
			}

			say(w, text("an answer"), finish("stop"))
		}
	}
	picture := func(prompt string) bool { return strings.Contains(prompt, "image_url") }
	bad := func(prompt string) bool { return strings.Contains(prompt, pictureURL("bad.png")) }
	two := func(prompt string) bool { return strings.Count(prompt, `"image_url":{`) > 1 }

	server := newAnswersServer(t, s, map[string]func(http.ResponseWriter, request){
		"400": refuses(http.StatusBadRequest, picture), "413": refuses(http.StatusRequestEntityTooLarge, picture),
		"500": refuses(http.StatusInternalServerError, picture),
		"one": refuses(http.StatusBadRequest, bad), "too large": refuses(http.StatusRequestEntityTooLarge, two),
		"another fault": refuses(http.StatusBadRequest, func(string) bool { return true }),
	})

	for _, name := range []string{"400", "413", "500"} {
		session := s.onModel(name, domain.SessionSetup{})
		end := s.awaitEnd(session, s.sendImage(session, "look", "a.png").ChatID)
		require.Equal(t, "completed", end["finish_reason"], end)
		require.Equal(t, domain.BlockSystemNote, s.lastAnswer(session).Blocks[0].Type)
		require.Contains(t, server.prompts(name)[1], "Image 1 of this message is left out")

		require.Equal(t, "completed", s.talk(session, "and now")["finish_reason"])
		require.Equal(t, 3, server.count(name), "the next message is not refused first")
	}

	session := s.onModel("one", domain.SessionSetup{})
	s.awaitEnd(session, s.sendImage(session, "look", "good.png").ChatID)
	s.awaitEnd(session, s.sendImage(session, "look", "bad.png").ChatID)
	require.Equal(t, "completed", s.talk(session, "and now")["finish_reason"])

	prompts := server.prompts("one")
	require.Len(t, prompts, 4)
	require.Contains(t, prompts[3], pictureURL("good.png"))
	require.NotContains(t, prompts[3], pictureURL("bad.png"))

	session = s.onModel("too large", domain.SessionSetup{})
	s.awaitEnd(session, s.sendImage(session, "look", "first.png").ChatID)
	end := s.awaitEnd(session, s.sendImage(session, "look", "second.png").ChatID)
	require.Equal(t, "completed", end["finish_reason"], end)

	prompts = server.prompts("too large")
	require.Contains(t, prompts[2], pictureURL("second.png"))
	require.NotContains(t, prompts[2], pictureURL("first.png"))

	session = s.onModel("another fault", domain.SessionSetup{})
	end = s.awaitEnd(session, s.sendImage(session, "look", "a.png").ChatID)
	require.Equal(t, "model_refused", end["error"].(map[string]any)["code"])
	require.Equal(t, 2, server.count("another fault"))
}

// largeCamera takes pictures of 300 KB.
type largeCamera struct{}

func (largeCamera) Tools(context.Context, tools.Scope) []tools.Tool {
	tool, err := tools.Prepare(tools.Tool{
		Name: "Camera", DisplayName: "Camera", Executing: true,
		Spec: domain.ToolSpec{Name: "Camera", Description: "Takes pictures.", Parameters: json.RawMessage(`{"type":"object"}`)},
		Run: func(_ context.Context, call *tools.Call) (tools.Result, error) {
			image := tools.Image{MIME: "image/png", Data: []byte(shot + call.ID + strings.Repeat("r", 300<<10))}
			return tools.Result{Output: "taken", Images: []tools.Image{image}}, nil
		},
	})
	if err != nil {
		panic(err)
	}

	return []tools.Tool{tool}
}

// TestChat_largeImages holds that chats with pictures in messages and in results continue with a
// server that takes requests of 1.2 MB, and show it the newest.
func TestChat_largeImages(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	s.acts.Tools.Tools.Provide(largeCamera{})

	server := newAnswersServer(t, s, map[string]func(http.ResponseWriter, request){
		"small requests": func(w http.ResponseWriter, r request) {
			last := r.messages[len(r.messages)-1].(map[string]any)
			_, images := shownTo(r.messages[len(r.messages)-1:])

			switch prompt := jsonText(r.messages); {
			case len(prompt) > 1_200_000:
				refusal(w, http.StatusRequestEntityTooLarge, "", "Request Entity Too Large")
			case len(images) > 0 && strings.Contains(jsonText(last), "photograph"):
				say(w, toolCall(0, "Camera", `{}`), finish("tool_calls"))
			default:
				say(w, text("an answer"), finish("stop"))
			}
		},
	})

	session := s.onModel("small requests", domain.SessionSetup{})
	for i := range 3 {
		picture := strings.Repeat(strconv.Itoa(i), 300<<10)
		end := s.awaitEnd(session, s.sendImage(session, "photograph", picture).ChatID)
		require.Equal(t, "completed", end["finish_reason"], "%d: %v", i, end)

		prompts := server.prompts("small requests")
		require.Contains(t, prompts[len(prompts)-1], pictureURL(picture)[:400<<10], "the newest picture of a message")
	}

	calls := server.count("small requests")
	require.Equal(t, "completed", s.talk(session, "and now")["finish_reason"])
	require.Equal(t, calls+1, server.count("small requests"), "the next message is not refused first")
}
