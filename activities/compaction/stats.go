package compaction

import (
	"cmp"
	"context"
	"math"
	"slices"
	"strings"

	"everloop/activities/prompt"
	"everloop/domain"
)

// largestShown is how many entries context statistics name.
const largestShown = 10

// skillTool is the tool whose description lists the session's skills.
const skillTool = "Skill"

// ContextStats returns the size of the next prompt of a session's main loop, by category.
// It reads what a model call reads, so its cost does not grow with the age of the
// session.
func (c *Compactor) ContextStats(ctx context.Context, session domain.Session) (domain.ContextStats, error) {
	a := &attempt{Compactor: c}
	a.Session, a.BranchID, a.LoopID = session, session.ActiveBranchID, domain.RootLoop

	a.Chat = domain.ChatSettings{Mode: session.Mode, Model: session.Model}
	if session.ActiveChatID != nil {
		a.Chat.ID = *session.ActiveChatID
	}

	var err error
	if a.model, err = c.Models.Resolve(ctx, a.Chat.RequestedModel()); err != nil {
		return domain.ContextStats{}, err
	}

	transcript, err := c.Store.Transcript(ctx, domain.TranscriptQuery{
		ChatID: a.Chat.ID, BranchID: a.BranchID, LoopID: a.LoopID, Before: endOfBranch,
	})
	if err != nil {
		return domain.ContextStats{}, err
	}

	a.turns = transcript.Turns
	a.measure(ctx, transcript)
	name, exact := c.Tokens.Tokenizer(a.model.ID)
	profile := c.Profile(session)
	stats := domain.ContextStats{
		Model: a.model.ID, ContextWindow: a.model.ContextWindow, ThresholdPct: profile.Compaction.ThresholdPct,
		ReservedOutput: a.model.ContextWindow - a.limit, Tokenizer: name, Estimated: !exact, Largest: a.largest(),
		PromptCut: a.model.PromptCut,
	}

	stats.Categories = a.categories(transcript, c.sizes().Overhead(a.model.ID, a.Chat, a.Loop, profile, a.offered(ctx, profile)))
	for i := range stats.Categories {
		category := &stats.Categories[i]
		category.Pct = percent(category.Tokens, stats.ContextWindow)
		stats.UsedTokens += category.Tokens
	}

	stats.UsedPct = percent(stats.UsedTokens, stats.ContextWindow)

	return stats, nil
}

func (c *attempt) categories(transcript domain.Transcript, f prompt.Overhead) []domain.ContextCategory {
	instructions := domain.ContextCategory{Name: "system_prompt", Tokens: prompt.Scaled(f.System, c.framed), Count: 1}

	tools, skills := domain.ContextCategory{Name: "tools"}, domain.ContextCategory{Name: "skills"}
	for _, t := range f.Tools {
		of := &tools
		if t.Name == skillTool {
			of = &skills
		}

		of.Tokens += prompt.Scaled(t.Tokens, c.framed)
		of.Count++
	}

	memories := domain.ContextCategory{
		Name:   "memories",
		Tokens: prompt.Scaled(c.sizes().Recalled(c.model.ID, transcript.Recalled), c.framed),
		Count:  len(transcript.Recalled),
	}

	messages := domain.ContextCategory{Name: "messages"}
	results := domain.ContextCategory{Name: "tool_results"}
	files := domain.ContextCategory{Name: "files"}

	for _, t := range transcript.Turns {
		w := c.weights[t.ID]
		messages.Tokens, messages.Count = messages.Tokens+w.Said, messages.Count+1
		results.Tokens, results.Count = results.Tokens+w.Results, results.Count+w.Calls
		files.Tokens, files.Count = files.Tokens+w.Files, files.Count+w.Images
	}

	summary := domain.ContextCategory{Name: "summary", Tokens: prompt.Scaled(c.summarySize(transcript.Summary), c.framed)}
	if transcript.Summary != "" {
		summary.Count = 1
	}

	return []domain.ContextCategory{instructions, tools, skills, memories, messages, results, files, summary}
}

// largest names the entries that take most.
func (c *attempt) largest() []domain.ContextEntry {
	entries := make([]domain.ContextEntry, 0, len(c.turns))
	for _, t := range c.turns {
		entries = append(entries, domain.ContextEntry{EntryID: t.ID, Tokens: c.weights[t.ID].Total(), Label: label(t)})
	}

	slices.SortStableFunc(entries, func(a, b domain.ContextEntry) int { return cmp.Compare(b.Tokens, a.Tokens) })

	return entries[:min(len(entries), largestShown)]
}

// label says in one line what a turn is.
func label(t domain.TranscriptTurn) string {
	said := prompt.Spoken(t)
	if t.Role == domain.RoleUser {
		for _, p := range t.Parts {
			said += p.Text + " "
		}
	}

	var names []string
	for _, call := range t.Calls {
		if !slices.Contains(names, call.ToolName) {
			names = append(names, call.ToolName)
		}
	}

	parts := []string{string(t.Role)}
	if len(names) > 0 {
		parts = append(parts, strings.Join(names, ", "))
	}

	if line := strings.Join(strings.Fields(head(said, 400)), " "); line != "" {
		parts = append(parts, head(line, 80))
	}

	return strings.Join(parts, ": ")
}

// head returns the beginning of a text, in characters.
func head(text string, most int) string {
	for i := range text {
		if most == 0 {
			return text[:i] + "…"
		}

		most--
	}

	return text
}

func percent(part, whole int64) float64 {
	if whole <= 0 {
		return 0
	}

	return math.Round(float64(part)/float64(whole)*10_000) / 100
}
