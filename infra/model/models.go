package model

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/tidwall/gjson"
	"golang.org/x/sync/singleflight"

	"everloop/domain"
)

const (
	listTimeout  = 10 * time.Second
	maxListBytes = 8 << 20
)

// listing is the cached model list. After a failure it contains the entries of the last success.
type listing struct {
	asked   time.Time
	at      time.Time
	entries []entry
	err     error
}

// entry is one element of GET /v1/models. The name of the window's member differs between
// servers.
type entry struct {
	ID            string   `json:"id"`
	Name          string   `json:"name"`
	ContextWindow tokens   `json:"context_window"`        // the gateway
	LoadedContext tokens   `json:"loaded_context_length"` // LM Studio
	Meta          meta     `json:"meta"`                  // llama.cpp
	MaxModelLen   tokens   `json:"max_model_len"`         // vLLM, SGLang
	ContextLength tokens   `json:"context_length"`        // OpenRouter
	MaxContext    tokens   `json:"max_context_length"`    // LM Studio, Mistral: of the model
	MaxOutput     tokens   `json:"max_output"`
	MaxTokens     tokens   `json:"max_output_tokens"`
	Modalities    []string `json:"modalities"`
	Aliases       []string `json:"aliases"`

	ReasoningHistory domain.ReasoningHistory `json:"reasoning_history"`

	Supports *domain.ModelSupport `json:"supports"`
	Price    *domain.Price        `json:"price"`
}

// meta describes the weights of a model and how they are loaded.
type meta struct {
	loaded, trained int64
}

// UnmarshalJSON reads an object; anything else is ignored.
func (m *meta) UnmarshalJSON(text []byte) error {
	object := gjson.ParseBytes(text)
	m.loaded, _ = number(object.Get("n_ctx"))
	m.trained, _ = number(object.Get("n_ctx_train"))

	return nil
}

// tokens is a number of tokens; 0: unknown.
type tokens int64

// UnmarshalJSON accepts numbers in any form and ignores other values, so that one malformed entry
// does not invalidate the list.
func (t *tokens) UnmarshalJSON(text []byte) error {
	n, _ := number(gjson.ParseBytes(text))
	*t = tokens(n)

	return nil
}

// window returns the window with which the model is loaded, else the maximum of the model; 0:
// unknown.
func (e entry) window() int64 {
	for _, window := range []tokens{
		e.ContextWindow, e.LoadedContext, tokens(e.Meta.loaded), e.MaxModelLen, e.ContextLength, e.MaxContext,
	} {
		if window > 0 {
			return int64(window)
		}
	}

	return 0
}

// Models returns the server's models in the server's order. Lists and failures are cached for the
// configured time.
func (c *Client) Models(ctx context.Context) ([]domain.Model, error) {
	seen, err := c.entries(ctx)
	if err != nil {
		return nil, err
	}

	if seen.err != nil {
		return nil, seen.err
	}

	models := make([]domain.Model, 0, len(seen.entries))
	for _, e := range seen.entries {
		models = append(models, c.model(ctx, e, e.ID))
	}

	return models, nil
}

// Resolve returns the model for a request by name, by alias, or (with the empty string) the
// default. An unknown name is a *domain.Error with code unknown_model, after the list was fetched
// again, because the server may have added the model. While the list is unavailable any name is
// accepted: the call itself reports an error.
//
// An expired list is used as it is and fetched in the background: model calls do not wait for it.
func (c *Client) Resolve(ctx context.Context, requested string) (domain.Model, error) {
	began := time.Now()

	seen, err := c.known(ctx)
	if err != nil {
		return domain.Model{}, err
	}

	name := requested
	if name == "" {
		name = c.cfg.DefaultModel
	}

	if name == "" {
		return c.first(ctx, seen)
	}

	e, known := seen.named(name)
	if !known && seen.err == nil {
		if seen, err = c.askedSince(ctx, began); err != nil {
			return domain.Model{}, err
		}

		e, known = seen.named(name)
	}

	if known || seen.err != nil {
		return c.model(ctx, e, name), nil
	}

	return domain.Model{}, domain.Newf(domain.Invalid, domain.CodeUnknownModel, "model %q is not known to the model server", name)
}

// first returns the first text model: the list can start with a model for speech recognition.
func (c *Client) first(ctx context.Context, seen listing) (domain.Model, error) {
	for _, e := range seen.entries {
		if len(e.Modalities) == 0 || slices.Contains(e.Modalities, "text") {
			return c.model(ctx, e, e.ID), nil
		}
	}

	if seen.err != nil {
		return domain.Model{}, seen.err
	}

	return domain.Model{}, domain.Newf(domain.Unavailable, domain.CodeServiceDown, "the model server has no model")
}

// named returns the entry with a name.
func (l listing) named(name string) (entry, bool) {
	for _, e := range l.entries {
		if e.answersTo(name) {
			return e, true
		}
	}

	return entry{}, false
}

// answersTo reports whether a name selects the model. Ollama lists name:latest and accepts the
// bare name.
func (e entry) answersTo(name string) bool {
	return e.ID == name || e.ID == name+":latest" || slices.Contains(e.Aliases, name)
}

// model converts a list entry and applies the configured defaults, prices and limits.
func (c *Client) model(ctx context.Context, e entry, id string) domain.Model {
	m := domain.Model{
		ID: id, Name: e.Name, ContextWindow: c.cfg.ContextWindow, MaxOutput: int64(max(e.MaxOutput, e.MaxTokens, 0)),
		Modalities: e.Modalities, Price: c.price(e, id), ReasoningHistory: c.cfg.ReasoningHistory,
		PromptCut: c.limits.known(ctx, id).cut,
	}
	if e.ReasoningHistory.Known() {
		m.ReasoningHistory = e.ReasoningHistory
	}

	m.Supports = domain.ModelSupport{Tools: true, Thinking: true, JSONSchema: true}
	if e.Supports != nil {
		m.Supports = *e.Supports
	}

	if m.Name == "" {
		m.Name = id
	}

	if window := e.window(); window > 0 {
		m.ContextWindow = window
	} else if trained := e.Meta.trained; trained > 0 {
		m.ContextWindow = min(m.ContextWindow, trained) // the server loaded it with at most this window
	}

	return m
}

// price returns the configured price of a model, or the price of its entry. Invalid prices are
// ignored.
func (c *Client) price(e entry, id string) *domain.Price {
	for _, name := range []string{id, e.ID} {
		if price, set := c.cfg.Prices[name]; set {
			return &price
		}
	}

	if !e.Price.Known() {
		return nil
	}

	return e.Price
}

// known returns the cached list without waiting, and refreshes an expired list in the background.
// Without a list it waits for the first.
func (c *Client) known(ctx context.Context) (listing, error) {
	c.mu.Lock()
	seen := c.list
	c.mu.Unlock()

	if len(seen.entries) == 0 {
		return c.entries(ctx)
	}

	if time.Since(seen.at) >= c.cfg.ListTTL {
		c.refresh(ctx)
	}

	return seen, nil
}

// askedSince returns a list that was requested at t or later. A request in flight may have
// started before a model was loaded, so its result does not suffice.
func (c *Client) askedSince(ctx context.Context, t time.Time) (listing, error) {
	for {
		c.mu.Lock()
		seen := c.list
		c.mu.Unlock()

		if !seen.asked.Before(t) {
			return seen, nil
		}

		select {
		case <-ctx.Done():
			return listing{}, context.Cause(ctx)
		case <-c.refresh(ctx):
		}
	}
}

// entries returns the cached list, or fetches it after the configured time.
func (c *Client) entries(ctx context.Context) (listing, error) {
	c.mu.Lock()
	seen := c.list
	c.mu.Unlock()

	if !seen.at.IsZero() && time.Since(seen.at) < c.cfg.ListTTL {
		return seen, nil
	}

	select {
	case <-ctx.Done():
		return listing{}, context.Cause(ctx)
	case r := <-c.refresh(ctx):
		return r.Val.(listing), nil
	}
}

// refresh fetches the list; a failure does not remove the entries of the last success. Concurrent
// callers share one request, which a caller's context does not cancel.
func (c *Client) refresh(ctx context.Context) <-chan singleflight.Result {
	return c.flight.DoChan("models", func() (any, error) {
		fetch, cancel := context.WithTimeout(context.WithoutCancel(ctx), listTimeout)
		defer cancel()

		asked := time.Now()
		fresh, err := c.fetch(fetch)

		c.mu.Lock()
		defer c.mu.Unlock()

		c.list.asked, c.list.at, c.list.err = asked, time.Now(), err
		if err == nil {
			c.list.entries = fresh
		}

		return c.list, nil
	})
}

// fetch requests the list of models from the server.
func (c *Client) fetch(ctx context.Context) ([]entry, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.base+"/models", nil)
	if err != nil {
		return nil, unavailable("its address is not valid")
	}

	c.authorize(req)
	req.Header.Set("Accept", "application/json")

	res, err := c.http.Do(req)
	if err != nil {
		return nil, unavailable(c.clean(networkText(err)))
	}
	defer res.Body.Close()

	if res.StatusCode != http.StatusOK {
		return nil, domain.Unavailablef("the model server", c.httpFault(res, true))
	}

	body, err := io.ReadAll(io.LimitReader(res.Body, maxListBytes))
	if err != nil {
		return nil, unavailable(c.clean(networkText(err)))
	}

	var (
		list struct {
			Data json.RawMessage `json:"data"` // null: no models; missing: not a model list
		}
		entries []entry
	)
	if json.Unmarshal(body, &list) != nil || json.Unmarshal(list.Data, &entries) != nil {
		return nil, unavailable("its model list cannot be read")
	}

	return slices.DeleteFunc(entries, func(e entry) bool { return e.ID == "" }), nil
}

// LoadedWindows returns the context windows with which an Ollama server has loaded models, by
// name; none for other servers.
func (c *Client) LoadedWindows(ctx context.Context) map[string]int64 {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(c.base, "/v1")+"/api/ps", nil)
	if err != nil {
		return nil
	}

	c.authorize(req)

	res, err := c.http.Do(req)
	if err != nil {
		return nil
	}
	defer res.Body.Close()

	body, _ := io.ReadAll(io.LimitReader(res.Body, maxListBytes)) // an unreadable body has no models
	windows := map[string]int64{}

	for _, loaded := range gjson.GetBytes(body, "models").Array() {
		if window, is := number(loaded.Get("context_length")); is {
			windows[loaded.Get("name").String()] = window
		}
	}

	return windows
}

func unavailable(why string) *domain.Error {
	return domain.Unavailablef("the model server", fmt.Errorf("%s", why))
}
