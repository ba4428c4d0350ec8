package prompt

import (
	"math"
	"strings"

	"everloop/domain"
	"everloop/infra/tokens"
)

// Sizes measures prompts in the tokens of a model.
type Sizes struct{ Tokens *tokens.Counter }

// imageTokens stands for a picture, whose tokens only its server knows: about
// what the common vision models take for one of a screen's size.
const imageTokens = 1000

// perMessage is what a chat template adds to a message.
const perMessage = 4

// Next returns the size of a prompt in tokens, without its overhead when none was reported.
func (s Sizes) Next(model string, w domain.ContextWeight) int64 {
	return w.Reported + int64(float64(w.Bytes)/bytesPerToken*s.scale(model)) + w.Images*imageTokens
}

// bytesPerToken is a fair average over prose, code and tool results in all
// languages, for sizes that are taken without reading the texts.
const bytesPerToken = 3.7

// scaleSample is a text whose count shows how a model's tokens compare to
// estimated ones.
var scaleSample = strings.Repeat("a few words ", 250)

// scale returns the ratio of a model's tokens to the average of all models. It is at least 1:
// the calibration comes from whole prompts, with their tools, and what comes next can be
// denser. A summary that comes a little early costs less than a call that is rejected.
func (s Sizes) scale(model string) float64 {
	if _, exact := s.Tokens.Tokenizer(model); exact {
		return 1
	}

	return max(float64(s.Tokens.Count(model, scaleSample))/750, 1)
}

// Overhead is the size of a prompt without any turn.
type Overhead struct {
	System int64
	Tools  []ToolTokens
}

// ToolTokens is the size of a tool in a prompt.
type ToolTokens struct {
	Name   string
	Tokens int64
}

// Total returns the size of all of it.
func (f Overhead) Total() int64 {
	sum := f.System
	for _, t := range f.Tools {
		sum += t.Tokens
	}

	return sum
}

// Overhead measures the system prompt and the tools of a loop.
func (s Sizes) Overhead(
	model string, chat domain.ChatSettings, loop domain.LoopSettings, profile domain.Profile, offered []domain.ToolSpec,
) Overhead {
	f := Overhead{System: s.count(model, system(chat, loop, profile)) + perMessage}
	for _, spec := range offered {
		f.Tools = append(
			f.Tools,
			ToolTokens{
				spec.Name,
				s.count(model, spec.Name) + s.count(model, spec.Description) + s.count(model, string(spec.Parameters)) + perMessage,
			},
		)
	}

	return f
}

// Recalled measures the message with the memories of a chat.
func (s Sizes) Recalled(model string, recalled []domain.RecalledMemory) int64 {
	if len(recalled) == 0 {
		return 0
	}

	return s.count(model, reminded(recalled))
}

// Summary measures the message that stands for the compacted part of a conversation.
func (s Sizes) Summary(model, summary string) int64 {
	if summary == "" {
		return 0
	}

	return s.count(model, summarised(summary)) + perMessage
}

func (s Sizes) count(model, text string) int64 { return int64(s.Tokens.Count(model, text)) }

// TurnTokens is the size of one turn in a prompt.
type TurnTokens struct {
	Said    int64 // text and tool calls
	Results int64
	Files   int64 // pictures, of messages and of results
	Calls   int
	Images  int
}

// Total returns the size of all of it.
func (w TurnTokens) Total() int64 { return w.Said + w.Results + w.Files }

// Times scales the size, but for pictures, which are a guess in any case.
func (w TurnTokens) Times(factor float64) TurnTokens {
	w.Said, w.Results = Scaled(w.Said, factor), Scaled(w.Results, factor)
	return w
}

// Without returns the size without some of the pictures.
func (w TurnTokens) Without(pictures int) TurnTokens {
	w.Files -= int64(pictures) * imageTokens
	w.Images -= pictures

	return w
}

// Scaled returns a size by another count of tokens.
func Scaled(tokens int64, factor float64) int64 { return int64(math.Round(float64(tokens) * factor)) }

// Turn measures a turn as the prompt has it: with its reasoning while the model
// still needs that.
func (s Sizes) Turn(model string, t domain.TranscriptTurn, thinking bool) TurnTokens {
	var w TurnTokens

	for _, p := range t.Parts {
		if p.ImageURL != nil {
			w.Files += imageTokens
			w.Images++

			continue
		}

		w.Said += s.count(model, p.Text)
	}

	if t.Role == domain.RoleAssistant {
		w.Said += s.count(model, Spoken(t))
		w.Said += s.members(model, t)

		if thinking {
			w.Said += s.count(model, reasoningOf(model, t))
		}
	} else if len(t.Parts) == 0 {
		w.Said += s.count(model, Note(t.Blocks))
	}

	w.Said += perMessage
	for _, call := range t.Calls {
		w.Said += s.count(model, call.ToolName) + s.count(model, call.Arguments) + 2*perMessage
		w.Results += s.count(model, Result(call)) + perMessage
		w.Files += int64(len(call.Images)) * imageTokens
		w.Images += len(call.Images)
		w.Calls++
	}

	return w
}

// members measures what the model server sent with a turn and its calls, and needs back.
func (s Sizes) members(model string, t domain.TranscriptTurn) int64 {
	if t.Model != model {
		return 0
	}

	n := s.count(model, t.ServerMembers)
	for _, call := range t.Calls {
		n += s.count(model, call.ServerMembers)
	}

	return n
}

// Spoken returns what an assistant said in a turn: its text and its plan.
func Spoken(t domain.TranscriptTurn) string {
	said := ""

	for _, b := range t.Blocks {
		switch b.Type {
		case domain.BlockText:
			said += b.Content
		case domain.BlockPlan:
			said += "\n\nThe plan:\n" + b.Content
		default: // not text of the assistant
		}
	}

	return said
}

// farBelow is the fraction of an estimate below which a reported size is not believed: the
// server has cut the prompt, or counts a part of it.
const farBelow = 0.25

// minCut is the estimate, in tokens, below which a report is believed whatever it says.
const minCut = 2000

// minReported is what the smallest context windows hold: a server that reports less than
// this has not cut the prompt, but counts in its own way.
const minReported = 1000

// Reported compares what a server reports of a prompt with an estimate.
type Reported struct {
	Tokens    int64 // the size to go by
	Estimated int64 // of a cut prompt
	Cut       bool  // the server has cut the prompt
}

// Believe returns the size of a prompt: what its server has reported, unless that is
// nothing or far below the estimate. It adjusts the token counter to a report that is
// believed, when that is due.
func (s Sizes) Believe(p domain.Prompt, reported int64) Reported {
	if s.Tokens == nil {
		return Reported{Tokens: reported}
	}

	quick := s.quick(p)
	if reported <= 0 {
		return Reported{Tokens: quick}
	}

	// An estimate by bytes is too high for some texts, which are looked at then.
	if float64(reported) >= 1.5*farBelow*float64(quick) && !s.Tokens.Due(p.Model) {
		return Reported{Tokens: reported}
	}

	estimated, images := s.estimate(p)
	if estimated >= minCut && float64(reported) < farBelow*float64(estimated) {
		return Reported{Tokens: max(quick, int64(estimated)), Estimated: int64(estimated), Cut: reported >= minReported}
	}

	if !images { // what a picture takes is not known
		s.Tokens.Observe(p.Model, estimated, reported)
	}

	return Reported{Tokens: reported}
}

// quick estimates a prompt by its bytes.
func (s Sizes) quick(p domain.Prompt) int64 {
	var w domain.ContextWeight

	for _, spec := range p.Tools {
		w.Bytes += int64(len(spec.Name) + len(spec.Description) + len(spec.Parameters))
	}

	for _, m := range p.Messages {
		w.Bytes += int64(len(m.Reasoning) + len(m.ServerMembers))

		for _, part := range m.Parts {
			w.Bytes += int64(len(part.Text))
			if part.ImageURL != nil {
				w.Images++
			}
		}

		for _, call := range m.Calls {
			w.Bytes += int64(len(call.Name) + len(call.Arguments) + len(call.ServerMembers))
		}
	}

	return s.Next(p.Model, w)
}

// estimate estimates the texts of a prompt, and reports whether it has images, too.
func (s Sizes) estimate(p domain.Prompt) (tokens int, images bool) {
	count := func(text string) { tokens += s.Tokens.Count("", text) }

	for _, spec := range p.Tools {
		count(spec.Name)
		count(spec.Description)
		count(string(spec.Parameters))

		tokens += perMessage
	}

	for _, m := range p.Messages {
		tokens += perMessage

		for _, part := range m.Parts {
			images = images || part.ImageURL != nil

			count(part.Text)
		}

		count(m.Reasoning)
		count(m.ServerMembers)

		for _, call := range m.Calls {
			count(call.Name)
			count(call.Arguments)
			count(call.ServerMembers)
		}
	}

	return tokens, images
}
