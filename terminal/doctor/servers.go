package doctor

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"everloop/domain"
	"everloop/infra/external"
	modelserver "everloop/infra/model"
)

// WorkerVersions reports which build of the workers receives new chats, and which builds can be
// stopped. It reports nothing for a server that no workers have joined yet. refusal is the
// server's error when it has no worker deployments.
func WorkerVersions(look domain.WorkerDeployment, refusal, err error) []Check {
	const name = "worker versions"

	switch {
	case refusal != nil:
		return one(
			name, Warn, "the server has no worker deployments ("+external.Cause(refusal)+")",
			"stop all old workers before new ones start",
		)
	case err != nil:
		return one(name, Warn, "cannot be read ("+external.Cause(err)+")", "see the server's log")
	case len(look.Versions) == 0:
		return nil
	}

	return describeVersions(name, look)
}

func describeVersions(name string, d domain.WorkerDeployment) []Check {
	checks := make([]Check, 0, len(d.Versions))
	for _, v := range d.Versions {
		build := v.BuildID
		if build == "" {
			build = "unversioned"
		}

		check := Check{Name: name, State: Info, Detail: fmt.Sprintf("%s: %s, %d workers", build, v.Status, v.Workers)}
		switch {
		case v.Status == domain.VersionCurrent && v.Workers == 0:
			check.State, check.Hint = Warn, "start workers of this build, or promote another one: everloop deploy promote"
		case v.Status == domain.VersionDrained && v.Workers == 0:
			continue // a build without work
		case v.Status == domain.VersionDrained:
			check.Hint = "its workers may be stopped"
		}

		checks = append(checks, check)
	}

	return checks
}

// model requests the model list of the model server.
func model(ctx context.Context, s Settings) []Check {
	const name = "model"
	if s.ModelURL == "" {
		return one(name, Warn, "demo model, scripted by the mock service", "set LLM_GATEWAY_URL for a real one")
	}

	place := s.ModelURL
	if u, err := url.Parse(place); err == nil {
		place = u.Redacted()
	}

	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()

	server := modelserver.New(
		modelserver.Config{BaseURL: s.ModelURL, Key: s.ModelKey, DefaultModel: s.Model, ContextWindow: s.ContextWindow},
	)

	models, err := server.Models(ctx)
	if err != nil {
		why := external.Cause(err)
		if e, ok := errors.AsType[*domain.Error](err); ok {
			why = e.Message
		}

		return one(name, Fail, place+": "+why, "start the model server, or correct LLM_GATEWAY_URL and LLM_GATEWAY_KEY")
	}

	var names []string
	for _, m := range models {
		names = append(names, m.ID)
	}

	if len(names) == 0 {
		return one(name, Fail, place+" has no model", "load one")
	}

	if s.Model != "" {
		if _, err := server.Resolve(ctx, s.Model); err != nil {
			return one(name, Fail, fmt.Sprintf("%s does not know %s", place, s.Model), "set LLM_MODEL to one of "+some(names))
		}
	}

	return append(one(name, OK, place+": "+some(names), ""), loadedWindows(ctx, server, models)...)
}

// loadedWindows warns of models that an Ollama server has loaded with a smaller window than
// Everloop expects: it cuts longer prompts and answers.
func loadedWindows(ctx context.Context, server *modelserver.Client, models []domain.Model) (checks []Check) {
	loaded := server.LoadedWindows(ctx)

	for _, m := range models {
		if window := loaded[m.ID]; window > 0 && window < m.ContextWindow {
			checks = append(checks, Check{
				Name: "context length", State: Warn,
				Detail: fmt.Sprintf("%s is loaded with %d tokens, and %d are expected", m.ID, window, m.ContextWindow),
				Hint:   "raise OLLAMA_CONTEXT_LENGTH or num_ctx, or set LLM_CONTEXT_WINDOW",
			})
		}
	}

	return checks
}

// some lists the first few.
func some(names []string) string {
	const shown = 5
	if len(names) > shown {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:shown], ", "), len(names)-shown)
	}

	return strings.Join(names, ", ")
}
