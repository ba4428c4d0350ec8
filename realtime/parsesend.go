package realtime

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"everloop/domain"
)

const (
	maxClientMessageID = 200
	maxParts           = 1000
)

// SendRequest is the body of chat:send, which is also that of POST …/chat
// (decisions.md sections 3 and 7): a message, or an answer when Answer is set.
type SendRequest struct {
	SessionID string // as the body says it; empty when it does not
	Send      domain.Send
	Answer    *domain.Answer
}

// ParseSend checks the body of chat:send. A fault is a *domain.Error with code
// invalid_request, invalid_answer (what is inside an answer) or invalid_schema.
// The trigger is user or whatif; other doors set their own.
func ParseSend(raw json.RawMessage) (SendRequest, error) {
	f := object("body", raw)
	request := SendRequest{SessionID: f.text("session_id")}
	if f.err != nil {
		return request, f.err
	}
	send := domain.Send{
		SessionID: request.SessionID,
		Message:   f.message("message"),
		Mode:      domain.Mode(f.oneOf("mode", "", string(domain.ModePlanning), string(domain.ModeExecuting))),
		Headless:  f.flag("headless"),
		Delivery: domain.Delivery(f.oneOf("delivery", string(domain.DeliverEnqueue), string(domain.DeliverEnqueue),
			string(domain.DeliverSteer), string(domain.DeliverInterrupt), string(domain.DeliverReject))),
		ClientMessageID: f.text("client_message_id"),
		Trigger:         domain.TriggerUser,
		Whatif:          f.whatif("whatif"),
	}
	if len(send.ClientMessageID) > maxClientMessageID || strings.ContainsRune(send.ClientMessageID, 0) {
		f.fail("client_message_id", "must have at most %d bytes and no NUL", maxClientMessageID)
	}
	answer := f.get("askuser_answer")
	if f.err == nil && answer != nil && send.Whatif != nil {
		f.fail("whatif", "cannot come with askuser_answer")
	}
	if send.Whatif != nil {
		send.Trigger = domain.TriggerWhatif
	}
	var schemaFault error
	if schema := f.get("output_schema"); schema != nil {
		if schema[0] != '{' {
			f.fail("output_schema", "must be an object")
		} else if _, err := domain.CompileSchema(schema); err != nil {
			fault := *domain.AsError(err)
			fault.Fields = []domain.Field{{Location: "body.output_schema", Message: fault.Message}}
			schemaFault = &fault
		}
		send.OutputSchema, send.Headless = schema, true
	}
	if f.err == nil && answer == nil && send.Whatif == nil && len(send.Message) == 0 {
		f.fail("message", "must not be empty")
	}
	if f.err != nil {
		return request, f.err
	}
	if schemaFault != nil {
		return request, schemaFault
	}
	if answer != nil {
		var err error
		request.Answer, err = parseAnswer(answer)
		return request, err
	}
	request.Send = send
	return request, nil
}

// message is a string or an array of parts; nil when there is nothing in it.
func (f *fields) message(name string) []domain.ContentPart {
	raw := f.get(name)
	if raw == nil {
		return nil
	}
	switch raw[0] {
	case '"':
		return said(domain.ContentPart{Type: "text", Text: f.text(name)})
	case '[':
		var parts []json.RawMessage
		if !f.into(name, "a string or an array of parts", &parts) {
			return nil
		}
		if len(parts) > maxParts {
			f.fail(name, "must have at most %d parts", maxParts)
			return nil
		}
		var out []domain.ContentPart
		for i, raw := range parts {
			part, err := parsePart(fmt.Sprintf("%s.%s[%d]", f.at, name, i), raw)
			if err != nil {
				if f.err == nil {
					f.err = err
				}
				return nil
			}
			out = append(out, part)
		}
		return said(out...)
	default:
		f.fail(name, "must be a string or an array of parts")
		return nil
	}
}

// said is nil when none of the parts says anything.
func said(parts ...domain.ContentPart) []domain.ContentPart {
	for i := range parts {
		parts[i].Text = domain.CleanText(parts[i].Text)
	}
	for _, p := range parts {
		if p.Type != "text" || strings.TrimSpace(p.Text) != "" {
			return parts
		}
	}
	return nil
}

func parsePart(at string, raw json.RawMessage) (domain.ContentPart, error) {
	p := object(at, raw)
	part := domain.ContentPart{Type: p.oneOf("type", "", "text", "image_url")}
	switch part.Type {
	case "text":
		if p.get("text") == nil {
			p.fail("text", "is required")
		}
		part.Text = p.text("text")
	case "image_url":
		image := object(at+".image_url", p.get("image_url"))
		part.ImageURL = &domain.ImageURL{URL: image.id("url")}
		if image.err == nil && !isImageURL(part.ImageURL.URL) {
			image.fail("url", "must be an http or https address, or a data URL with base64 content")
		}
		if p.err == nil {
			p.err = image.err
		}
	default:
		p.fail("type", "is required")
	}
	return part, p.err
}

// isImageURL looks at the form only; the content is checked where it is stored.
func isImageURL(url string) bool {
	if scheme, rest, ok := strings.Cut(url, "://"); ok && rest != "" {
		return strings.EqualFold(scheme, "http") || strings.EqualFold(scheme, "https")
	}
	head, data, ok := strings.Cut(url, ",")
	if !ok || len(head) < len("data:") || !strings.EqualFold(head[:len("data:")], "data:") {
		return false
	}
	return data != "" && strings.HasSuffix(strings.ToLower(head), ";base64")
}

// whatif is nil when it is absent.
func (f *fields) whatif(name string) *domain.Whatif {
	raw := f.get(name)
	if raw == nil {
		return nil
	}
	w := object(f.at+"."+name, raw)
	step := w.count("from_step", 31)
	if step == nil {
		w.fail("from_step", "is required")
		step = new(uint64)
	}
	out := &domain.Whatif{FromStep: int(*step)} //nolint:gosec // 31 bits
	w.into("deprecate_entry_ids", "an array of strings", &out.DeprecateEntryIDs)
	var quotes []json.RawMessage
	w.into("quotes", "an array of objects", &quotes)
	for i, raw := range quotes {
		q := object(fmt.Sprintf("%s.quotes[%d]", w.at, i), raw)
		quote := domain.Quote{EntryID: q.text("entry_id"), Text: domain.CleanText(q.id("text"))}
		if w.err == nil {
			w.err = q.err
		}
		out.Quotes = append(out.Quotes, quote)
	}
	if f.err == nil {
		f.err = w.err
	}
	return out
}

// parseAnswer checks the form of an answer. What is inside selections and
// custom is an answer that does not fit (invalid_answer), not a broken request.
func parseAnswer(raw json.RawMessage) (*domain.Answer, error) {
	f := object("body.askuser_answer", raw)
	answer := &domain.Answer{ToolCallID: f.id("tool_call_id"), Selections: map[string][]int{}, Custom: map[string]string{}}
	var selections, custom map[string]json.RawMessage
	f.into("selections", "an object", &selections)
	f.into("custom", "an object", &custom)
	if f.err != nil {
		return nil, f.err
	}
	for question, raw := range custom {
		var text string
		if string(raw) == "null" {
			continue
		}
		if json.Unmarshal(raw, &text) != nil {
			return nil, invalidAnswer("custom", "the text of a question must be a string")
		}
		if strings.TrimSpace(text) != "" {
			answer.Custom[question] = domain.CleanText(text)
		}
	}
	for question, raw := range selections {
		var given []*int // an index that is null is none, and not 0
		if json.Unmarshal(raw, &given) != nil || slices.Contains(given, nil) {
			return nil, invalidAnswer("selections", "a question's options must be an array of indexes")
		}
		options := make([]int, len(given))
		for i, option := range given {
			options[i] = *option
		}
		if len(options) > 0 {
			answer.Selections[question] = options
		} else if answer.Custom[question] == "" {
			return nil, invalidAnswer("selections", "a question has no option chosen and no custom text")
		}
	}
	if len(answer.Selections) == 0 && len(answer.Custom) == 0 {
		return nil, invalidAnswer("selections", "no question is answered")
	}
	for question := range answer.Custom {
		if !isNumber(question) {
			return nil, invalidAnswer("custom", "questions are named by their number, from \"0\"")
		}
	}
	for question, options := range answer.Selections {
		if !isNumber(question) {
			return nil, invalidAnswer("selections", "questions are named by their number, from \"0\"")
		}
		for _, option := range options {
			if option < 0 {
				return nil, invalidAnswer("selections", "an option's index is never negative")
			}
		}
	}
	return answer, nil
}

func invalidAnswer(field, message string) error {
	err := domain.Invalidf("body.askuser_answer."+field, "%s", message)
	err.Code = domain.CodeInvalidAnswer
	return err
}

// isNumber reports whether a question is named as "0", "1" and so on.
func isNumber(text string) bool {
	if text == "" || len(text) > 4 || (len(text) > 1 && text[0] == '0') {
		return false
	}
	for i := range len(text) {
		if text[i] < '0' || text[i] > '9' {
			return false
		}
	}
	return true
}
