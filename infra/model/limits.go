package model

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"everloop/domain"
)

// Limits stores the request features that model servers refuse, shared by all processes. With a
// nil Limits they are cached in the process only.
type Limits interface {
	// ModelLimits returns the limits that apply to all sessions.
	ModelLimits(ctx context.Context) ([]domain.ModelLimit, error)
	KeepModelLimits(ctx context.Context, limits ...domain.ModelLimit) error
}

const (
	limitsEvery   = 10 * time.Second // interval of reading the store
	limitsTimeout = 5 * time.Second
	maxLimited    = 256 // maximum models in memory
)

// limits caches the store. A missing entry costs one more call to the server, so errors of the
// store are ignored.
type limits struct {
	store Limits

	mu   sync.Mutex
	read time.Time
	of   map[string]limited // by model
}

// limited contains the limits of one model.
type limited struct {
	fields map[feature]bool
	cut    *domain.PromptCut
}

// known returns the limits of a model. The caller may modify the result.
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

// refresh reads the store if the cache has expired. Concurrent callers do not wait for it.
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

// refused records the features that the server of a model refused.
func (l *limits) refused(ctx context.Context, model string, features map[feature]bool) {
	var learnt []domain.ModelLimit
	for _, f := range slices.Sorted(maps.Keys(features)) {
		learnt = append(learnt, domain.ModelLimit{Model: model, Kind: domain.LimitField, Subject: string(f)})
	}

	l.keep(ctx, learnt...)
}

// PromptWasCut records that the server of a model truncated a prompt.
func (c *Client) PromptWasCut(ctx context.Context, model string, reported, estimated int64) {
	c.limits.keep(ctx, domain.ModelLimit{
		Model: model, Kind: domain.LimitPrompt,
		Cut: domain.PromptCut{Reported: reported, Estimated: estimated, At: time.Now().UTC()},
	})
}

// Refusals returns the request features that are omitted for each model because its server has
// refused them.
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
