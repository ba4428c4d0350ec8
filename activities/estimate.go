package activities

import (
	"context"
	"math"
	"strings"

	"everloop/activities/tools"
	"everloop/domain"
)

// imageTokens stands for a picture, whose tokens only its server knows: about
// what the common vision models take for one of a screen's size.
const imageTokens = 1000

// perMessage is what a chat template adds to a message.
const perMessage = 4

// overThreshold reports whether the model call would pass the threshold at which the
// history is summarised. It is asked before the call's turn is opened, so that the summary
// comes before that turn. What the server has reported of the loop's last prompt counts;
// only what came since is estimated.
func (a *Activities) overThreshold(ctx context.Context, key domain.TurnKey, w domain.ContextWeight, profile domain.Profile) (bool, error) {
	if !profile.Compaction.Auto {
		return false, nil
	}

	model, err := a.Models.Resolve(ctx, requested(w.Chat))
	if err != nil {
		return false, nil // the call itself will find that out
	}

	limit := threshold(model, profile.Compaction)

	size := a.size(model.ID, w)
	if w.Reported == 0 {
		if size > limit {
			return true, nil
		}

		set := a.Tools.For(ctx, tools.Scope{
			Session: w.Session, Mode: w.Chat.Mode, Headless: w.Chat.Headless, LoopID: key.LoopID,
			Depth: w.Loop.Depth, Only: w.Loop.Only, Profile: profile,
		})
		overhead := a.promptOverhead(model.ID, system(w.Chat, w.Loop, profile), set.Offered())
		size += overhead.total()
	}

	return size > limit, nil
}

// size is the size of a prompt in tokens, without its overhead when none was reported.
func (a *Activities) size(model string, w domain.ContextWeight) int64 {
	return w.Reported + int64(float64(w.Bytes)/bytesPerToken*a.scale(model)) + w.Images*imageTokens
}

// bytesPerToken is a fair average over prose, code and tool results in all
// languages, for sizes that are taken without reading the texts.
const bytesPerToken = 3.7

// scaleSample is a text whose count shows how a model's tokens compare to
// estimated ones.
var scaleSample = strings.Repeat("a few words ", 250)

// scale is the ratio of a model's tokens to the average of all models. It is at least 1:
// the calibration comes from whole prompts, with their tools, and what comes next can be
// denser. A summary that comes a little early costs less than a call that is rejected.
func (a *Activities) scale(model string) float64 {
	if _, exact := a.Tokens.Tokenizer(model); exact {
		return 1
	}

	return max(float64(a.Tokens.Count(model, scaleSample))/750, 1)
}

func requested(chat domain.ChatSettings) string {
	if chat.Model == nil {
		return ""
	}

	return *chat.Model
}

// threshold is the size in tokens at which a history is summarised.
func threshold(model domain.Model, policy domain.CompactionPolicy) int64 {
	return model.ContextWindow * int64(policy.ThresholdPct) / 100
}

// promptOverhead is the size of a prompt without any turn.
type promptOverhead struct {
	system int64
	tools  []toolTokens
}

type toolTokens struct {
	name   string
	tokens int64
}

func (f promptOverhead) total() int64 {
	sum := f.system
	for _, t := range f.tools {
		sum += t.tokens
	}

	return sum
}

func (a *Activities) promptOverhead(model, system string, offered []domain.ToolSpec) promptOverhead {
	f := promptOverhead{system: a.count(model, system) + perMessage}
	for _, spec := range offered {
		f.tools = append(
			f.tools,
			toolTokens{
				spec.Name,
				a.count(model, spec.Name) + a.count(model, spec.Description) + a.count(model, string(spec.Parameters)) + perMessage,
			},
		)
	}

	return f
}

func (a *Activities) count(model, text string) int64 { return int64(a.Tokens.Count(model, text)) }

// turnTokens is the size of one turn in a prompt.
type turnTokens struct {
	said    int64 // text and tool calls
	results int64
	files   int64 // pictures
	calls   int
	images  int
}

func (w turnTokens) total() int64 { return w.said + w.results + w.files }

// times scales the size, but for pictures, which are a guess in any case.
func (w turnTokens) times(factor float64) turnTokens {
	w.said, w.results = scaled(w.said, factor), scaled(w.results, factor)
	return w
}

func scaled(tokens int64, factor float64) int64 { return int64(math.Round(float64(tokens) * factor)) }

// turnTokens measures a turn as the prompt has it: with its reasoning while the model
// still needs that.
func (a *Activities) turnTokens(model string, t domain.TranscriptTurn, thinking bool) turnTokens {
	var w turnTokens

	for _, p := range t.Parts {
		if p.ImageURL != nil {
			w.files += imageTokens
			w.images++

			continue
		}

		w.said += a.count(model, p.Text)
	}

	if t.Role == domain.RoleAssistant {
		w.said += a.count(model, spoken(t))
		if thinking {
			w.said += a.count(model, reasoningOf(model, t))
		}
	} else if len(t.Parts) == 0 {
		w.said += a.count(model, noteOf(t.Blocks))
	}

	w.said += perMessage
	for _, call := range t.Calls {
		w.said += a.count(model, call.ToolName) + a.count(model, call.Arguments) + 2*perMessage
		w.results += a.count(model, resultText(call)) + perMessage
		w.calls++
	}

	return w
}

// spoken is what an assistant said in a turn: its text and its plan.
func spoken(t domain.TranscriptTurn) string {
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

// calibrate adjusts the token counter to what a server has reported of a prompt, when
// that is due.
func (a *Activities) calibrate(p domain.Prompt, reported int64) {
	if a.Tokens == nil || reported == 0 || !a.Tokens.Due(p.Model) {
		return
	}

	estimated := 0
	for _, spec := range p.Tools {
		estimated += a.Tokens.Count("", spec.Name) + a.Tokens.Count("", spec.Description) + a.Tokens.Count(
			"", string(spec.Parameters),
		) + perMessage
	}

	for _, m := range p.Messages {
		estimated += perMessage

		for _, part := range m.Parts {
			if part.ImageURL != nil {
				return // what a picture takes is not known
			}

			estimated += a.Tokens.Count("", part.Text)
		}

		estimated += a.Tokens.Count("", m.Reasoning)
		for _, call := range m.Calls {
			estimated += a.Tokens.Count("", call.Name) + a.Tokens.Count("", call.Arguments)
		}
	}

	a.Tokens.Observe(p.Model, estimated, reported)
}
