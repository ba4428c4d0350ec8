package model_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"everloop/infra/model"
)

// answering is a transport that answers with fixed bytes.
type answering struct{ contentType, body string }

func (a answering) RoundTrip(r *http.Request) (*http.Response, error) {
	return &http.Response{
		StatusCode: http.StatusOK, Request: r,
		Header: http.Header{"Content-Type": {a.contentType}},
		Body:   io.NopCloser(strings.NewReader(a.body)),
	}, nil
}

// FuzzStream holds the reader to two promises whatever a server sends: it
// never panics, and an answer without error has a finish reason and calls that
// can be distinguished.
func FuzzStream(f *testing.F) {
	f.Add("text/event-stream", delta(`{"content":"a"}`)+"\n\n"+finish("stop")+"\n\n"+usage+"\n\n"+done)
	f.Add(
		"text/event-stream",
		delta(`{"tool_calls":[{"index":0,"id":"a","function":{"name":"B","arguments":{}}},{"id":"a"}]}`)+"\n"+finish("stop"),
	)
	f.Add("text/event-stream", "event: error\ndata: {}\n:\n\n{\"error\":null}\r\ndata")
	f.Add("application/json", `{"choices":[{"message":{"content":"x"},"finish_reason":"stop"}]}`)
	f.Add("", `data: {"object":"error","code":null,"error":[1]}`)
	f.Fuzz(func(t *testing.T, contentType, body string) {
		c := model.New(model.Config{BaseURL: "http://127.0.0.1:1", Transport: answering{contentType, body}})

		reply, err := c.Stream(t.Context(), ask(), nil)
		if err != nil {
			require.NotEmpty(t, err.Error())
			return
		}

		require.NotEmpty(t, reply.FinishReason)

		ids := map[string]bool{}

		for _, call := range reply.Calls {
			require.False(t, call.ID != "" && ids[call.ID+call.Name+call.Arguments])
			ids[call.ID+call.Name+call.Arguments] = true
		}
	})
}
