package gateway_test

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"
)

// pictureRequests are requests of each interface with a picture by address.
var pictureRequests = map[string]string{
	"/v1/chat/completions": `{"model":"m","messages":[{"role":"user","content":[{"type":"text","text":"x"},` +
		`{"type":"image_url","image_url":{"url":%q}}]}]}`,
	"/v1/messages": `{"model":"m","max_tokens":9,"messages":[{"role":"user","content":[` +
		`{"type":"image","source":{"type":"url","url":%q}}]}]}`,
	"/v1/responses": `{"model":"m","input":[{"role":"user","content":[{"type":"input_image","image_url":%q}]}]}`,
}

func TestService_refusesPicturesThatAreNotPublic(t *testing.T) {
	t.Parallel()

	url := upstream(t, func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{"id":"1","model":"m","choices":[{"message":{"content":"yes"},"finish_reason":"stop"}]}`)
	})
	s := start(t, one(url, ""), 0)

	for _, address := range []string{
		"http://169.254.169.254/latest/meta-data/", "https://metadata.google.internal/x.png", "http://localhost:8000/x.png",
		"http://10.1.2.3/x.png", "http://[::1]/x.png", "http://[::ffff:127.0.0.1]/x.png", "http://127.0.0.1:29999/x.png",
		"http://LOCALHOST./x.png", "http://printer/x.png", "http://2130706433/x.png", "http://0x7f.1/x.png", "http://127.1/x.png",
		"http://１２７.0.0.1/x.png", "http://user@169.254.169.254/x.png", "http://example.org:22/x.png",
	} {
		for path, request := range pictureRequests {
			res := s.do(t.Context(), "POST", path, operatorKey, fmt.Sprintf(request, address))
			text := read(t, res)
			require.Equal(t, 400, res.StatusCode, "%s at %s: %s", address, path, text)
			require.Equal(t, `["invalid_request_error","picture_refused"]`, gjson.Get(text, "error.[type,code]").Raw, path)
			require.Equal(t, path == "/v1/messages", gjson.Get(text, "request_id").Exists(), "the form of the interface")
		}
	}

	for _, address := range []string{"https://example.org/x.png", "http://8.8.8.8/x.png", "data:image/png;base64,iVBORw0KGgo="} {
		for path, request := range pictureRequests {
			if path == "/v1/messages" && address[:5] == "data:" {
				continue // this interface has another form for data
			}

			res := s.do(t.Context(), "POST", path, operatorKey, fmt.Sprintf(request, address))
			require.Equal(t, 200, res.StatusCode, "%s at %s: %s", address, path, read(t, res))
		}
	}
}

// Sources accept addresses in several members, and some ignore the case of names.
func TestService_completion_refusesAddressesOfEveryMember(t *testing.T) {
	t.Parallel()

	url := upstream(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"id":"1"}`) })
	s := start(t, one(url, ""), 0)

	const private = `"HTTP://10.0.0.1/x"`

	for content, want := range map[string]int{
		`"content":[{"type":"video_url","video_url":{"url":` + private + `}}]`:                 400,
		`"content":[{"type":"image_url","image_url":` + private + `}]`:                         400,
		`"content":[{"type":"text","text":"x","input_audio":{"data":` + private + `}}]`:        400,
		`"content":[{"type":"tool_result","content":[{"image_url":{"url":` + private + `}}]}]`: 400,
		`"content":{"image_url":{"url":` + private + `}}`:                                      400,
		`"content":"x","Content":[{"image_url":{"url":` + private + `}}]`:                      400,
		`"content":[{"type":"image_url","image_url":{"url":"file:///etc/passwd"}}]`:            400,
		`"content":` + private:                               200,
		`"content":[{"type":"text","text":` + private + `}]`: 200,
		`"content":null,"tool_calls":[{"id":"1","function":{"name":"f","arguments":"{\"url\":\"http://10.0.0.1\"}"}}]`: 200,
	} {
		status, text := s.chat(`{"model":"m","messages":[{"role":"user",` + content + `}]}`)
		require.Equal(t, want, status, "%s: %s", content, text)
	}
}
