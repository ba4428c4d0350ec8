package trigger

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"mime"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"everloop/domain"
	"everloop/domain/expression"
	"everloop/domain/target"
)

// Payload is what filters and templates of a trigger read. Its numbers are json.Number.
type Payload struct {
	Body    any
	Headers map[string]string
	Event   string
}

// PayloadOf returns the payload of a request. The body is JSON, or a form whose only field payload
// can be JSON; any other body is a text.
func PayloadOf(auth Auth, r Request) Payload {
	body := parseBody(r.Headers["content-type"], r.Body)
	return Payload{Body: body, Headers: r.Headers, Event: eventOf(auth, r.Headers, body)}
}

func parseBody(contentType string, raw []byte) any {
	kind, _, _ := mime.ParseMediaType(contentType)
	if kind == "application/x-www-form-urlencoded" {
		return parseForm(string(raw))
	}

	if value, err := decode(raw); err == nil {
		return value
	}

	return domain.CleanText(string(raw))
}

func parseForm(raw string) any {
	form, err := url.ParseQuery(raw)
	if err != nil {
		return domain.CleanText(raw)
	}

	if len(form) == 1 && len(form["payload"]) == 1 {
		if value, err := decode([]byte(form.Get("payload"))); err == nil {
			return value
		}
	}

	fields := map[string]any{}
	for name, values := range form {
		fields[domain.CleanText(name)] = domain.CleanText(strings.Join(values, ","))
	}

	return fields
}

// decode parses one JSON value, with numbers as they are written.
func decode(raw []byte) (value any, err error) {
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()

	if err := decoder.Decode(&value); err != nil {
		return nil, err
	}

	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("the body has more than one value")
	}

	return value, nil
}

// eventOf returns the type of an event: the one that its headers name, else that of its body.
func eventOf(auth Auth, headers map[string]string, body any) string {
	event := ""

	switch auth {
	case GitHub:
		event = headers["x-github-event"]
	case GitLab:
		event = headers["x-gitlab-event"]
	case Slack:
		if inner, isObject := member(body, "event"); isObject {
			event = memberText(inner, "type")
		}
	case Bearer, Standard:
	}

	for _, name := range []string{"type", "event", "command"} {
		if event == "" {
			event = memberText(body, name)
		}
	}

	return domain.FirstRunes(event, 200)
}

func member(value any, name string) (any, bool) {
	object, _ := value.(map[string]any)
	found, exists := object[name]

	return found, exists
}

func memberText(value any, name string) string {
	found, _ := member(value, name)
	text, _ := found.(string)

	return text
}

// variables are what a filter reads.
var variables = []string{"body", "headers", "event"}

// CheckFilter returns an error if a filter is invalid.
func CheckFilter(filter string) error {
	if filter == "" {
		return nil
	}

	if err := expression.Check(filter, variables); err != nil {
		e := domain.Invalidf("body.filter", "%s", domain.CleanText(err.Error()))
		e.Code = "invalid_filter"

		return e
	}

	return nil
}

// Passes evaluates a filter. Only the members of the body that the filter names are evaluated, so
// that their size is bounded and not that of the whole body.
func Passes(filter string, p Payload) (bool, error) {
	if filter == "" {
		return true, nil
	}

	headers := map[string]any{}
	for name, value := range p.Headers {
		headers[name] = value
	}

	body := p.Body
	if object, isObject := body.(map[string]any); isObject {
		if names, all := expression.Members(filter, "body"); !all {
			kept := map[string]any{}
			for _, name := range names {
				if value, exists := object[name]; exists {
					kept[name] = value
				}
			}

			body = kept
		}
	}

	return expression.Holds(filter, map[string]any{"body": plain(body), "headers": headers, "event": p.Event}, expression.NewBudget())
}

// plain returns a value with numbers that expressions can compare.
func plain(value any) any {
	switch v := value.(type) {
	case json.Number:
		number, _ := v.Float64()
		return number
	case []any:
		list := make([]any, len(v))
		for i, element := range v {
			list[i] = plain(element)
		}

		return list
	case map[string]any:
		object := make(map[string]any, len(v))
		for name, element := range v {
			object[name] = plain(element)
		}

		return object
	default:
		return value
	}
}

// maxFilled bounds the texts of a target after their references were replaced, in bytes.
const maxFilled = 256 << 10

var references = regexp.MustCompile(`\{\{\s*((?:body|headers|event)(?:\.[^{}\s]*)?)\s*\}\}`)

// CheckTemplate returns an error if a text refers to something that no delivery has. Text in
// double braces with another start stays as it is.
func CheckTemplate(location, text string) error {
	for _, found := range references.FindAllStringSubmatch(text, -1) {
		root, path, nested := strings.Cut(found[1], ".")

		invalid := nested && slices.Contains(strings.Split(path, "."), "") || root == "event" && nested || root == "headers" && !nested
		if invalid {
			return domain.Invalidf(location, "{{%s}} is unknown: use body, body.NAME, headers.NAME or event", domain.CleanText(found[1]))
		}
	}

	return nil
}

// Values returns the values of the references in the texts of a target: those to the event, and
// those of a message to its inputs. With false the filled texts would be larger than 256 KiB.
func (p Payload) Values(t target.Target) (values target.Values, fits bool) {
	values = target.Values{}

	size := 0
	count := func(_, text string) string {
		size += len(text)

		for _, name := range target.References(text) {
			value, known := values[name]
			if !known && references.MatchString("{{"+name+"}}") {
				value = p.Value(name)
				values[name] = value
			}

			size += len(value)
		}

		return text
	}

	t.Map(count)

	if size > maxFilled || !t.Kind.Chats() {
		return values, size <= maxFilled
	}

	inputs := target.Values{}

	for name, input := range t.Inputs {
		text, _ := input.(string)
		inputs["input."+name] = values.Fill(text)
	}

	maps.Copy(values, inputs)

	size = 0
	count("prompt", t.Prompt)

	return values, size <= maxFilled
}

// Value returns the value of a reference such as body.pull_request.title as a text.
func (p Payload) Value(reference string) string {
	root, path, nested := strings.Cut(reference, ".")

	switch root {
	case "event":
		return p.Event
	case "headers":
		return p.Headers[strings.ToLower(path)]
	}

	value := p.Body

	if nested {
		for name := range strings.SplitSeq(path, ".") {
			value = step(value, name)
		}
	}

	return textOf(value)
}

func step(value any, name string) any {
	if list, isList := value.([]any); isList {
		if i, err := strconv.Atoi(name); err == nil && i >= 0 && i < len(list) {
			return list[i]
		}

		return nil
	}

	found, _ := member(value, name)

	return found
}

func textOf(value any) string {
	switch v := value.(type) {
	case nil:
		return ""
	case string:
		return v
	}

	var text bytes.Buffer

	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)

	if encoder.Encode(value) != nil {
		return ""
	}

	return strings.TrimSuffix(text.String(), "\n")
}

// redacted replaces the values of credentials and signatures.
const redacted = "[redacted]"

// credentials are headers whose values are never stored.
var credentials = regexp.MustCompile(
	`^(?:authorization|proxy-authorization|cookie|x-gitlab-token|.*(?:signature|secret|api-?key|password|credential|auth-?token).*)$`)

// StoredHeaders returns the headers of a request as they are stored: without the values of
// credentials and signatures, and within bounds.
func StoredHeaders(headers map[string]string) map[string]string {
	const maxHeaders, maxValue = 100, 2000

	stored := map[string]string{}

	for name, value := range headers {
		switch {
		case len(stored) == maxHeaders:
			return stored
		case credentials.MatchString(name):
			stored[name] = redacted
		default:
			stored[domain.CleanText(name)] = domain.FirstRunes(domain.CleanText(value), maxValue)
		}
	}

	return stored
}

// ShownBody returns the beginning of a body without values that look like credentials.
func ShownBody(body []byte) string {
	cut := body[:min(len(body), MaxShownBody)]
	for len(cut) > 0 && len(cut) < len(body) && !utf8.RuneStart(body[len(cut)]) {
		cut = cut[:len(cut)-1]
	}

	return domain.SecretShapes.ReplaceAllString(domain.CleanText(string(cut)), redacted)
}
