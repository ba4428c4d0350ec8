package gateway

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

// created is the date of models without a date from their server.
const created = 1_767_225_600

// target is the model of a name, and its sources.
type target struct {
	model    string // its id; the requested name may be an alias
	upstream map[*source]string
	sources  []*source
}

// resolve returns the model of a name. An unknown name may be new: then it reads the lists of
// the sources again.
func (t *table) resolve(ctx context.Context, by *caller, name string) (target, *apiError) {
	found := target{model: t.real(name), upstream: map[*source]string{}}
	if !by.permits(name, found.model) {
		return found, noModel(name)
	}

	for _, maxAge := range []time.Duration{time.Hour, time.Second} {
		for _, s := range t.sources {
			if upstream, has := s.has(ctx, found.model, maxAge); has {
				found.upstream[s] = upstream
				found.sources = append(found.sources, s)
			}
		}

		if len(found.sources) > 0 {
			return found, nil
		}
	}

	for _, s := range t.sources {
		if is, _ := s.healthy(time.Now()); !is && len(s.Models) == 0 {
			e := unavailable("the source " + s.Name + ", which may have the model, cannot be reached")
			e.after = listFresh

			return found, e
		}
	}

	return found, noModel(name)
}

// real returns the id of the model with a name or alias.
func (t *table) real(name string) string {
	to, is := t.set.Aliases[name]
	switch {
	case !is:
		return name
	case to == DefaultModel:
		return t.set.DefaultModel
	}

	return to
}

// list returns the entries of the model list for a caller, the default model first. The members
// of a source's entries are passed on unchanged.
func (t *table) list(ctx context.Context, by *caller) ([]map[string]any, *apiError) {
	perSource := make([][]json.RawMessage, len(t.sources))

	var looking sync.WaitGroup
	for i, s := range t.sources {
		looking.Go(func() { perSource[i] = s.models(ctx, listFresh) })
	}

	looking.Wait()

	aliases := map[string][]string{}
	for name := range t.set.Aliases {
		aliases[t.real(name)] = append(aliases[t.real(name)], name)
	}

	var entries []map[string]any

	known := map[string]bool{}

	for i, s := range t.sources {
		for _, entry := range s.entries(perSource[i]) {
			id, _ := entry["id"].(string)
			if id == "" || known[id] || !by.permits(slices.Concat(aliases[id], []string{id})...) {
				continue
			}

			known[id] = true
			complete(entry, s, aliases[id])
			entries = append(entries, entry)
		}
	}

	if len(entries) == 0 && slices.ContainsFunc(t.sources, func(s *source) bool { is, _ := s.healthy(time.Now()); return !is }) {
		e := sourceFault(http.StatusBadGateway, "source_unavailable", "no source can be reached")
		e.after = listFresh

		return nil, e
	}

	slices.SortStableFunc(entries, func(a, b map[string]any) int {
		return cmp.Compare(rank(b, t.set.DefaultModel), rank(a, t.set.DefaultModel))
	})

	return entries, nil
}

func rank(entry map[string]any, first string) int {
	if entry["id"] == first {
		return 1
	}

	return 0
}

// entries returns the models of a source: the configured ones with the members of the source's
// list, or without configured ones the whole list.
func (s *source) entries(listed []json.RawMessage) []map[string]any {
	byID := map[string]map[string]any{}

	var all []map[string]any

	for _, raw := range listed {
		var entry map[string]any
		if json.Unmarshal(raw, &entry) != nil || entry["id"] == nil {
			continue
		}

		byID[entryID(raw)] = entry
		all = append(all, entry)
	}

	if len(s.Models) == 0 {
		return all
	}

	all = nil

	for _, m := range s.Models {
		entry := map[string]any{}
		for field, value := range byID[cmp.Or(m.UpstreamID, m.ID)] {
			entry[field] = value
		}

		entry["id"] = m.ID
		if m.ContextWindow > 0 {
			entry["context_window"] = m.ContextWindow
		}

		if len(m.Modalities) > 0 {
			entry["modalities"] = m.Modalities
		}

		all = append(all, entry)
	}

	return all
}

// complete adds what an entry of a model list needs, and the aliases of the model.
func complete(entry map[string]any, s *source, aliases []string) {
	entry["object"] = "model"
	if entry["created"] == nil {
		entry["created"] = created
	}

	if window := loadedWindow(entry); window > 0 && entry["context_window"] == nil {
		entry["context_window"] = window
	}

	if entry["owned_by"] == nil {
		entry["owned_by"] = s.Name
	}

	given, _ := entry["aliases"].([]any)
	for _, one := range given {
		if name, is := one.(string); is && !slices.Contains(aliases, name) {
			aliases = append(aliases, name)
		}
	}

	if len(aliases) > 0 {
		slices.Sort(aliases)
		entry["aliases"] = aliases
	}
}

func entryID(raw json.RawMessage) string {
	var entry struct{ ID string }
	if json.Unmarshal(raw, &entry) != nil {
		return ""
	}

	return entry.ID
}

func (s *Service) listModels(w http.ResponseWriter, r *http.Request, by *caller) {
	entries, fault := s.table().list(r.Context(), by)
	if fault != nil {
		writeError(w, fault)
		return
	}

	if ofAnthropic(r) {
		writeJSON(w, http.StatusOK, anthropicList(entries))
		return
	}

	writeJSON(w, http.StatusOK, map[string]any{"object": "list", "data": append([]map[string]any{}, entries...)})
}

// ofAnthropic reports whether a client uses Anthropic's interface, by its version header.
func ofAnthropic(r *http.Request) bool { return r.Header.Get("Anthropic-Version") != "" }

// anthropicList returns the list of models in the format of Anthropic's interface, on one page.
func anthropicList(entries []map[string]any) map[string]any {
	list := map[string]any{"data": []map[string]any{}, "has_more": false, "first_id": nil, "last_id": nil}
	if len(entries) == 0 {
		return list
	}

	models := make([]map[string]any, len(entries))
	for i, entry := range entries {
		models[i] = anthropicModel(entry)
	}

	list["data"], list["first_id"], list["last_id"] = models, models[0]["id"], models[len(models)-1]["id"]

	return list
}

// anthropicModel returns an entry of the list with the fields of Anthropic's interface in addition to its own.
func anthropicModel(entry map[string]any) map[string]any {
	model := maps.Clone(entry)
	model["type"], model["display_name"] = "model", entry["id"]

	made := int64(created)
	if seconds, is := entry["created"].(float64); is {
		made = int64(seconds)
	}

	model["created_at"] = time.Unix(made, 0).UTC().Format(time.RFC3339)

	return model
}

// getModel returns one model; ids may contain slashes.
func (s *Service) getModel(w http.ResponseWriter, r *http.Request, by *caller) {
	name := strings.TrimSpace(r.PathValue("id"))

	entries, fault := s.table().list(r.Context(), by)
	if fault != nil {
		writeError(w, fault)
		return
	}

	id := s.table().real(name)
	for _, entry := range entries {
		if entry["id"] == id {
			w.Header().Set("X-Resolved-Model", id)

			if ofAnthropic(r) {
				entry = anthropicModel(entry)
			}

			writeJSON(w, http.StatusOK, entry)

			return
		}
	}

	writeError(w, noModel(name))
}

// loadedWindow returns the context window with which a source has loaded a model, by the field
// names of LM Studio, llama.cpp and vLLM; 0: unknown.
func loadedWindow(entry map[string]any) float64 {
	meta, _ := entry["meta"].(map[string]any)

	for _, value := range []any{entry["loaded_context_length"], meta["n_ctx"], entry["max_model_len"]} {
		if window, is := value.(float64); is && window > 0 {
			return window
		}
	}

	return 0
}
