package dialect

import (
	"strconv"

	"github.com/tidwall/gjson"
)

// Items of the output of a response.
type (
	reasoningItem struct {
		ID      string          `json:"id"`
		Type    string          `json:"type"`
		Summary []any           `json:"summary"`
		Content []reasoningText `json:"content"`
		Status  string          `json:"status"`

		Encrypted string `json:"encrypted_content,omitempty"` // an opaque value of the gateway
	}

	reasoningText struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}

	messageItem struct {
		ID      string `json:"id"`
		Type    string `json:"type"`
		Status  string `json:"status"`
		Role    string `json:"role"`
		Content []any  `json:"content"` // of outputText and refusalText
	}

	outputText struct {
		Type        string `json:"type"`
		Text        string `json:"text"`
		Annotations []any  `json:"annotations"`
		Logprobs    []any  `json:"logprobs"`
	}

	refusalText struct {
		Type    string `json:"type"`
		Refusal string `json:"refusal"`
	}

	callItem struct {
		ID        string `json:"id"`
		Type      string `json:"type"`
		Status    string `json:"status"`
		CallID    string `json:"call_id"`
		Name      string `json:"name"`
		Arguments string `json:"arguments"`
	}
)

const (
	inProgress = "in_progress"
	completed  = "completed"
	incomplete = "incomplete"
)

// itemID returns the id of an item of the response; items are numbered.
func (p *responses) itemID(prefix string, index int) string {
	return prefix + "_" + p.id + "_" + strconv.Itoa(index)
}

func (p *responses) reasoningItem(index int, status string, texts ...string) reasoningItem {
	item := reasoningItem{
		ID: p.itemID("rs", index), Type: "reasoning", Status: status, Summary: []any{}, Content: []reasoningText{},
	}
	for _, text := range texts {
		item.Content = append(item.Content, reasoningText{"reasoning_text", text})
	}

	return item
}

// carriedItem returns an item with the members that the source needs back.
func (p *responses) carriedItem(index int, c carried) reasoningItem {
	item := p.reasoningItem(index, completed)
	item.Encrypted = c.opaque()

	return item
}

func (p *responses) messageItem(index int, status string, content ...any) messageItem {
	if content == nil {
		content = []any{}
	}

	return messageItem{ID: p.itemID("msg", index), Type: "message", Status: status, Role: "assistant", Content: content}
}

func textContent(text string) outputText {
	return outputText{Type: "output_text", Text: text, Annotations: []any{}, Logprobs: []any{}}
}

func refusalContent(text string) refusalText { return refusalText{Type: "refusal", Refusal: text} }

func (p *responses) Whole(of Answered, completion []byte) (any, string) {
	object := gjson.ParseBytes(completion)
	choice := object.Get("choices.0")
	said := choice.Get("message")

	r := p.started(of)
	r.end(of, choice, object.Get("usage"))

	status := completed
	if r.Status == incomplete {
		status = incomplete
	}

	if text := thinkingOf(said); text != "" {
		item := p.reasoningItem(len(r.Output), completed, text)
		item.Encrypted = carried{Model: of.Model, Field: reasoningField(said)}.opaque()
		r.Output = append(r.Output, item)
	}

	if refusal := said.Get("refusal").String(); refusal != "" {
		r.Output = append(r.Output, p.messageItem(len(r.Output), status, refusalContent(refusal)))
	} else if text := textOf(said); text != "" {
		r.Output = append(r.Output, p.messageItem(len(r.Output), status, textContent(text)))
	}

	var ids []string

	calls := said.Get("tool_calls").Array()
	for i, one := range calls {
		item := callItem{
			ID: p.itemID("fc", len(r.Output)), Type: "function_call", Status: completed,
			CallID: functionCallID(one.Get("id").String()), Name: one.Get("function.name").String(),
			Arguments: one.Get("function.arguments").String(),
		}

		ids = append(ids, item.CallID)

		switch whole := callArguments(&item.Arguments); {
		case item.Name == "":
			return nil, noName
		case whole:
		case r.Status == incomplete && i == len(calls)-1: // the token limit truncated the call
			item.Status = incomplete
		default:
			return nil, badArguments
		}

		if p.isCustom(item.Name) {
			r.Output = append(r.Output, p.customCallItem(len(r.Output), item.Status, item.CallID, item.Name, item.Arguments))
			continue
		}

		r.Output = append(r.Output, item)
	}

	if c := carriedBy(of.Model, said, ids); c.needed() {
		r.Output = append(r.Output, p.carriedItem(len(r.Output), c))
	}

	return r, ""
}
