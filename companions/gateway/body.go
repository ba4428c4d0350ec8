package gateway

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"slices"
	"strings"

	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"

	"everloop/companions/edge"
)

// body is the body of a request. Only the model's name is changed.
type body struct {
	text        []byte
	contentType string
	boundary    string // of a form; empty: JSON
	model       string
	stream      bool
	addsUsage   bool  // a stream whose client did not request usage
	recording   int64 // bytes of the files of a form
}

// readBody reads a request. The caller must call release to return its share of the memory
// budget.
func (s *Service) readBody(w http.ResponseWriter, r *http.Request) (b body, release func(), fault *apiError) {
	in := s.bodies.Open(w, r)
	release = in.Release

	text, err := io.ReadAll(in)
	if err != nil {
		release()
		return b, nil, unread(err)
	}

	b.text = text

	kind, parameters, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if kind == "multipart/form-data" {
		b.boundary = parameters["boundary"]
		fault = b.parseForm()
	} else {
		fault = b.parseJSON()
	}

	if fault != nil {
		release()
		return b, nil, fault
	}

	return b, release, nil
}

// unread explains why a body could not be read.
func unread(err error) *apiError {
	switch _, large := errors.AsType[*http.MaxBytesError](err); {
	case large:
		return &apiError{
			status: http.StatusRequestEntityTooLarge, Type: "invalid_request_error", Code: "request_too_large",
			Message: "the request exceeds 64 MiB",
		}
	case errors.Is(err, edge.ErrBusy):
		return tooMany("gateway_busy", "the gateway holds as many requests as it may; try again")
	case edge.Late(err):
		return &apiError{
			status: http.StatusRequestTimeout, Type: "invalid_request_error", Code: "request_timeout",
			Message: "the body of the request did not come in time",
		}
	}

	return invalid("the body of the request could not be read")
}

func (b *body) parseJSON() *apiError {
	b.contentType = "application/json"
	if !json.Valid(b.text) { // unlike gjson's check it bounds the depth, which would exhaust the stack
		return invalid("the body is not JSON, or is nested too deeply")
	}

	object := gjson.ParseBytes(b.text)
	if !object.IsObject() {
		return invalid("the body must be a JSON object")
	}

	b.text = withoutRedirects(object, b.text)
	object = gjson.ParseBytes(b.text)
	// A source could read a second field of the name, in any case: a model that the key does
	// not permit.
	seen := map[string]bool{}

	var fault *apiError

	object.ForEach(func(key, value gjson.Result) bool {
		name := strings.ToLower(key.String())
		switch name {
		case "model", "stream", "stream_options":
			if seen[name] || key.String() != name {
				fault = invalid("the field " + name + " must be there once, in small letters")
			}

			seen[name] = true
		}

		switch {
		case name == "model" && value.Type != gjson.String && value.Type != gjson.Null:
			fault = invalid("the field model must be a string")
		case name == "stream" && !value.IsBool() && value.Type != gjson.Null:
			fault = invalid("the field stream must be true or false")
		}

		return fault == nil
	})
	b.model = object.Get("model").String()
	b.stream = object.Get("stream").Bool()
	b.addsUsage = b.stream && !object.Get("stream_options.include_usage").Bool()

	return fault
}

// askable checks that a body contains the fields that the path requires. Sources respond to
// other bodies in many ways: some with 500, some with an empty answer.
func (b *body) askable(path string) *apiError {
	object := gjson.ParseBytes(b.text)

	switch {
	case path == "/embeddings" && object.Get("input").Type == gjson.Null:
		return invalid("the field input is missing")
	case path != "/chat/completions":
		return nil
	case b.boundary != "":
		return invalid("the body must be a JSON object")
	}

	messages := object.Get("messages")
	if !messages.IsArray() || messages.Get("#").Int() == 0 {
		return invalid("the field messages must be an array of at least one message")
	}

	var fault *apiError

	messages.ForEach(func(_, message gjson.Result) bool {
		if !message.IsObject() {
			fault = invalid("each item of the field messages must be an object")
		}

		return fault == nil
	})

	return fault
}

// redirecting are the fields by which a request to some sources, such as LiteLLM, can select
// another server, other credentials or another model than the configured.
var redirecting = []string{
	"api_base", "base_url", "api_key", "api_type", "api_version", "custom_llm_provider", "litellm_credential_name", "model_list",
	"fallbacks", "context_window_fallbacks", "content_policy_fallbacks", "extra_headers", "user_config",
}

func isRedirecting(name string) bool { return slices.Contains(redirecting, strings.ToLower(name)) }

// withoutRedirects returns a JSON object without its redirecting fields; all others are
// unchanged.
func withoutRedirects(object gjson.Result, text []byte) []byte {
	var fields []string

	found := false

	object.ForEach(func(key, value gjson.Result) bool {
		if isRedirecting(key.String()) {
			found = true
			return true
		}

		fields = append(fields, key.Raw+":"+value.Raw)

		return true
	})

	if !found {
		return text
	}

	return []byte("{" + strings.Join(fields, ",") + "}")
}

// parts calls use for each part of a form.
func (b *body) parts(use func(part *multipart.Part, text []byte) error) error {
	reader := multipart.NewReader(bytes.NewReader(b.text), b.boundary)
	for {
		part, err := reader.NextRawPart()
		if errors.Is(err, io.EOF) {
			return nil
		}

		if err != nil {
			return err
		}

		text, err := io.ReadAll(part)
		if err != nil {
			return err
		}

		if err := use(part, text); err != nil {
			return err
		}
	}
}

func (b *body) parseForm() *apiError {
	models := 0

	err := b.parts(func(part *multipart.Part, text []byte) error {
		switch part.FormName() {
		case "model":
			models++
			b.model = strings.TrimSpace(string(text))
		case "stream":
			b.stream = strings.TrimSpace(string(text)) == "true"
		case "file":
			b.recording += int64(len(text))
		}

		return nil
	})
	switch {
	case err != nil:
		return invalid("the body is not a form of the kind multipart/form-data")
	case models > 1:
		return invalid("the field model must be there once")
	}

	return nil
}

// named returns the body with another model.
func (b *body) named(model string, chat bool) ([]byte, string, error) {
	if b.boundary != "" {
		return b.formNamed(model)
	}

	text := b.text

	var err error
	if b.model != model {
		if text, err = sjson.SetBytes(text, "model", model); err != nil {
			return nil, "", err
		}
	}

	if chat && b.addsUsage {
		text, err = sjson.SetBytes(text, "stream_options.include_usage", true)
	}

	return text, b.contentType, err
}

func (b *body) formNamed(model string) ([]byte, string, error) {
	var out bytes.Buffer

	writer := multipart.NewWriter(&out)
	err := b.parts(func(part *multipart.Part, text []byte) error {
		if part.FormName() == "model" || isRedirecting(part.FormName()) {
			return nil
		}

		to, err := writer.CreatePart(part.Header)
		if err == nil {
			_, err = to.Write(text)
		}

		return err
	})
	err = errors.Join(err, writer.WriteField("model", model), writer.Close())

	return out.Bytes(), writer.FormDataContentType(), err
}
