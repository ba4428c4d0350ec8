package gateway

import (
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/tidwall/gjson"

	"everloop/infra/netguard"
)

// checkPictures rejects content parts with a non-public address, which the source would fetch
// in its own network. It checks every string of a part except its texts, because sources accept
// addresses in more members than image_url, such as video_url.
func (b *body) checkPictures() *apiError {
	if b.boundary != "" {
		return nil
	}

	var refused *apiError

	eachNamed(gjson.ParseBytes(b.text), "messages", func(messages gjson.Result) {
		messages.ForEach(func(_, message gjson.Result) bool {
			eachNamed(message, "content", func(content gjson.Result) {
				if refused == nil && (content.IsArray() || content.IsObject()) {
					refused = refusedAddress(content)
				}
			})

			return refused == nil
		})
	})

	return refused
}

// eachNamed calls use for each member of an object with the name, in any case, because a
// source may read the second one or ignore the case.
func eachNamed(object gjson.Result, name string, use func(gjson.Result)) {
	object.ForEach(func(key, value gjson.Result) bool {
		if strings.EqualFold(key.String(), name) {
			use(value)
		}

		return true
	})
}

// texts are the members of content parts that are text for the model.
var texts = []string{"text", "refusal", "thinking", "reasoning", "arguments"}

// refusedAddress returns the fault of the first non-public address in a content part or a list
// of them.
func refusedAddress(part gjson.Result) (fault *apiError) {
	part.ForEach(func(key, value gjson.Result) bool {
		isText := value.Type == gjson.String && (part.IsArray() || slices.Contains(texts, key.String()))

		switch {
		case isText:
		case value.IsObject() || value.IsArray():
			fault = refusedAddress(value)
		case value.Type == gjson.String:
			fault = refusePicture(value.String())
		}

		return fault == nil
	})

	return fault
}

// fetched are the URL schemes that sources fetch.
var fetched = []string{"http:", "https:", "file:", "ftp:"}

// refusePicture returns the fault of a value that is a non-public address.
func refusePicture(value string) *apiError {
	value = strings.TrimSpace(value)
	start := strings.ToLower(value[:min(len(value), len("https:"))])

	if !slices.ContainsFunc(fetched, func(scheme string) bool { return strings.HasPrefix(start, scheme) }) {
		return nil
	}

	err := netguard.CheckPublicURL(value)
	if err == nil {
		return nil
	}

	shown := strconv.Quote(value[:min(len(value), 200)])

	return &apiError{
		status: http.StatusBadRequest, Type: "invalid_request_error", Code: "picture_refused",
		Message: "the picture at " + shown + " cannot be used: " + err.Error() + "; send its data as a data URL",
	}
}
