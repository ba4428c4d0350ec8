package model

import (
	"errors"
	"net/http"
	"slices"
	"sync"

	"everloop/domain"
)

// maxRefusers bounds how many models are remembered that take no reasoning; the
// oldest is forgotten, which costs one more call.
const maxRefusers = 256

// refusers are the models whose server refuses requests with reasoning in them.
type refusers struct {
	mu     sync.Mutex
	models []string // oldest first
}

func (r *refusers) has(model string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()

	return slices.Contains(r.models, model)
}

func (r *refusers) add(model string) {
	r.mu.Lock()
	defer r.mu.Unlock()

	if slices.Contains(r.models, model) {
		return
	}

	if len(r.models) >= maxRefusers {
		r.models = slices.Delete(r.models, 0, 1)
	}

	r.models = append(r.models, model)
}

// reasons reports whether a prompt carries reasoning.
func reasons(p domain.Prompt) bool {
	return slices.ContainsFunc(p.Messages, func(m domain.PromptMessage) bool { return m.Reasoning != "" })
}

// mayRefuseReasoning reports whether an error may come from a field that the server
// does not know: it refuses the request as it is, and not for its length.
func mayRefuseReasoning(err error) bool {
	fault, is := errors.AsType[*domain.ModelError](err)

	return is && fault.Fault == domain.FaultRefused &&
		(fault.Status == http.StatusBadRequest || fault.Status == http.StatusUnprocessableEntity)
}
