package app

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"everloop/domain"
)

// describeLimits describes what the servers of models do not take: what is left out of
// requests, and which servers cut prompts, of which it warns.
func describeLimits(limits []domain.ModelLimit) domain.CheckResult {
	left, counts := map[string][]string{}, map[string]map[domain.ModelLimitKind]int{}

	var cuts []string

	for _, l := range limits {
		switch l.Kind {
		case domain.LimitField:
			left[l.Model] = append(left[l.Model], l.Subject)
		case domain.LimitPrompt:
			cuts = append(cuts, fmt.Sprintf(
				"%s reported %d tokens of about %d (%s)", l.Model, l.Cut.Reported, l.Cut.Estimated, l.Cut.At.UTC().Format(time.RFC3339),
			))
		case domain.LimitImage, domain.LimitToolServer:
			if counts[l.Model] == nil {
				counts[l.Model] = map[domain.ModelLimitKind]int{}
			}

			counts[l.Model][l.Kind]++
		}
	}

	for model, of := range counts {
		for kind, noun := range map[domain.ModelLimitKind]string{domain.LimitImage: "images", domain.LimitToolServer: "tool servers"} {
			if n := of[kind]; n > 0 {
				left[model] = append(left[model], fmt.Sprintf("%s of sessions (%d)", noun, n))
			}
		}
	}

	result := domain.CheckResult{Status: domain.CheckOK}

	if len(left) > 0 {
		models := slices.Sorted(maps.Keys(left))
		for i, model := range models {
			slices.Sort(left[model])
			models[i] = model + ": " + strings.Join(left[model], ", ")
		}

		result.Message = "; left out because their servers refused it: " + strings.Join(models, "; ")
	}

	if len(cuts) > 0 {
		result.Status = domain.CheckWarn
		result.Message += "; cut prompts: " + strings.Join(cuts, "; ")
		result.Hint = "Raise the context length of the server (Ollama: OLLAMA_CONTEXT_LENGTH or num_ctx), or set LLM_CONTEXT_WINDOW " +
			"to the one that it has."
	}

	return result
}
