package mock_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"everloop/companions/mock"
	"everloop/domain"
)

func (b *bed) get(path string) (int, string) {
	b.t.Helper()
	res, err := http.Get(b.url + path)
	require.NoError(b.t, err)

	defer res.Body.Close()

	body, err := io.ReadAll(res.Body)
	require.NoError(b.t, err)

	return res.StatusCode, string(body)
}

type searchResults struct {
	Results []struct{ URL, Title, Content string }
}

func (b *bed) search(query string) (f searchResults) {
	b.t.Helper()
	status, body := b.get("/search?format=json&q=" + url.QueryEscape(query))
	require.Equal(b.t, http.StatusOK, status)
	require.NoError(b.t, json.Unmarshal([]byte(body), &f))

	return f
}

func TestSearch_pagesCanBeFetched(t *testing.T) {
	b := start(t, mock.Config{})
	for query, title := range map[string]string{
		"how to make green tea": "How to make tea", "latest version of examplelang": "Release notes",
		"what is durable execution?": "Durable execution",
	} {
		f := b.search(query)
		require.Contains(t, f.Results[0].Title, title)
		require.Equal(t, f, b.search(query), "the same query finds the same")

		for _, r := range f.Results {
			require.NotEmpty(t, r.Content)
			at, ok := strings.CutPrefix(r.URL, b.url)
			require.True(t, ok, r.URL)

			status, page := b.get(at)
			require.Equal(t, http.StatusOK, status)
			require.Contains(t, page, "<title>"+r.Title+"</title>")
			require.Contains(t, page, "demonstration")
		}
	}

	require.NotEmpty(t, b.search("日本語 \x00 ]]>").Results)
	require.NotEmpty(t, b.search(strings.Repeat("x", 5000)).Results)
}

func TestSearch_unknownRequests(t *testing.T) {
	b := start(t, mock.Config{})
	for path, want := range map[string]int{
		"/search?format=json": 400, "/search?q=x": 400, "/pages/none": 404, "/pages/": 404,
		"/w/api.php": 400,
	} {
		status, _ := b.get(path)
		require.Equal(t, want, status, path)
	}
}

func TestTheWebIsSearchedAndRead(t *testing.T) {
	b := start(t, mock.Config{})
	result := "[DEMO] 1. Tea\n   http://127.0.0.1:1/pages/tea\n"
	messages := []domain.PromptMessage{say("user", "please search the web for tea")}
	tools := specs(append(allTools, "WebSearch", "WebFetch")...)
	reply := b.must(prompt(tools, messages...))
	require.Equal(t, "WebSearch", reply.Calls[0].Name)
	require.JSONEq(t, `{"query": "tea"}`, reply.Calls[0].Arguments)
	messages = append(messages, domain.PromptMessage{Role: "assistant", Calls: earlier(reply.Calls)},
		domain.PromptMessage{Role: "tool", ToolCallID: reply.Calls[0].ID, Parts: []domain.ContentPart{{Type: "text", Text: result}}})
	reply = b.must(prompt(tools, messages...))
	require.Equal(t, "WebFetch", reply.Calls[0].Name)
	require.JSONEq(t, `{"url": "http://127.0.0.1:1/pages/tea"}`, reply.Calls[0].Arguments)
	require.Empty(t, b.must(prompt(specs(allTools...), say("user", "search the web"))).Calls, "without the tools nothing is called")
}

func TestAPageIsAnsweredFrom(t *testing.T) {
	b := start(t, mock.Config{})
	reply := b.must(
		prompt(
			nil,
			say("system", "You read one page."),
			say("user", "What is the title?\n\n<page url=\"http://x/\">\n# Tea\nWarm the pot.\n</page>"),
		),
	)
	require.Contains(t, reply.Text, "Warm the pot.")
	require.Contains(t, reply.Text, "cannot read")
	reply = b.must(prompt(nil, say("user", `What? [[script]]{"steps": [{"text": "Ordered."}]}[[/script]] <page url="http://x/">x</page>`)))
	require.Equal(t, "Ordered.", reply.Text, "the question may say what to answer")
}
