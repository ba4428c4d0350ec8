package model

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"everloop/domain"
)

// Limits stores what the servers of models do not take, for all processes. A nil Limits keeps
// nothing beyond the life of the process.
type Limits interface {
	// ModelLimits returns those that are of no session.
	ModelLimits(ctx context.Context) ([]domain.ModelLimit, error)
	KeepModelLimits(ctx context.Context, limits ...domain.ModelLimit) error
}

const (
	limitsEvery   = 10 * time.Second // between two reads of the store
	limitsTimeout = 5 * time.Second
	maxLimited    = 256 // models that are remembered without a store
)

// limits caches what the store has. What it does not have costs one more call to the server,
// so that faults of the store are ignored.
type limits struct {
	store Limits

	mu   sync.Mutex
	read time.Time
	of   map[string]limited // by model
}

// limited is what the server of one model does not take.
type limited struct {
	fields map[feature]bool
	cut    *domain.PromptCut
}

// known returns what the server of a model does not take. The caller may change the fields.
func (l *limits) known(ctx context.Context, model string) limited {
	l.refresh(ctx)

	l.mu.Lock()
	defer l.mu.Unlock()

	known := l.of[model]
	fields := map[feature]bool{}
	maps.Copy(fields, known.fields)
	known.fields = fields

	return known
}

func (l *limits) refresh(ctx context.Context) {
	l.mu.Lock()
	due := l.store != nil && time.Since(l.read) > limitsEvery

	if due {
		l.read = time.Now()
	}
	l.mu.Unlock()

	if !due {
		return
	}

	ctx, cancel := context.WithTimeout(ctx, limitsTimeout)
	defer cancel()

	stored, err := l.store.ModelLimits(ctx)
	if err != nil {
		return
	}

	l.mu.Lock()
	defer l.mu.Unlock()

	l.of = map[string]limited{}
	for _, limit := range stored {
		l.put(limit)
	}
}

func (l *limits) put(limit domain.ModelLimit) {
	if l.of == nil || len(l.of) >= maxLimited && l.store == nil {
		l.of = map[string]limited{}
	}

	of := l.of[limit.Model]
	if of.fields == nil {
		of.fields = map[feature]bool{}
	}

	switch limit.Kind {
	case domain.LimitField:
		of.fields[feature(limit.Subject)] = true
	case domain.LimitPrompt:
		of.cut = &limit.Cut
	case domain.LimitImage, domain.LimitToolServer: // of sessions
	}

	l.of[limit.Model] = of
}

func (l *limits) keep(ctx context.Context, learnt ...domain.ModelLimit) {
	if len(learnt) == 0 {
		return
	}

	if l.store != nil {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), limitsTimeout)
		defer cancel()

		_ = l.store.KeepModelLimits(ctx, learnt...)
	}

	l.mu.Lock()
	defer l.mu.Unlock()

	for _, limit := range learnt {
		l.put(limit)
	}
}

// refused records the parts of requests that the server of a model refused.
func (l *limits) refused(ctx context.Context, model string, features map[feature]bool) {
	var learnt []domain.ModelLimit
	for _, f := range slices.Sorted(maps.Keys(features)) {
		learnt = append(learnt, domain.ModelLimit{Model: model, Kind: domain.LimitField, Subject: string(f)})
	}

	l.keep(ctx, learnt...)
}

// PromptWasCut records that the server of a model has cut a prompt.
func (c *Client) PromptWasCut(ctx context.Context, model string, reported, estimated int64) {
	c.limits.keep(ctx, domain.ModelLimit{
		Model: model, Kind: domain.LimitPrompt,
		Cut: domain.PromptCut{Reported: reported, Estimated: estimated, At: time.Now().UTC()},
	})
}

// Refusals returns the parts of requests that are left out for each model because its server
// has refused them.
func (c *Client) Refusals() map[string][]string {
	c.limits.mu.Lock()
	defer c.limits.mu.Unlock()

	out := map[string][]string{}

	for model, of := range c.limits.of {
		for _, f := range slices.Sorted(maps.Keys(of.fields)) {
			out[model] = append(out[model], string(f))
		}
	}

	return out
}
