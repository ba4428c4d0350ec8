package gateway

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"everloop/companions/gateway/localserver"
)

const (
	removedDrain = 30 * time.Second // for the requests on a removed server
	endTimeout   = 10 * time.Second // for the servers when the gateway ends
	loadingAfter = 5 * time.Second  // Retry-After while a model is loaded
)

// runs reports whether the gateway runs the server of the source itself.
func (s Source) runs() bool { return s.ModelFile != "" }

// server returns the configuration of the source's server.
func (s Source) server() localserver.Config {
	return localserver.Config{
		Name: s.Name, Program: s.Program, ModelFile: s.ModelFile, Args: s.Args, Context: s.Context, Slots: s.Slots,
		StartTimeout: seconds(s.StartTimeoutS, 0),
	}
}

// concurrency returns the maximum of concurrent requests of the source.
func (s Source) concurrency() int {
	if s.runs() {
		return cmp.Or(s.MaxConcurrency, max(s.Slots, 1))
	}

	return cmp.Or(s.MaxConcurrency, defaultConcurrency)
}

// serverFaults returns the faults of the fields for a server that the gateway runs.
func (s Source) serverFaults() (faults []error) {
	if !s.runs() {
		if s.Program != "" || len(s.Args) > 0 || s.Context != 0 || s.Slots != 0 || s.StartTimeoutS != 0 {
			faults = append(faults, errors.New("program, args, context, slots and start_timeout_s need model_file"))
		}

		return faults
	}

	if s.Kind != KindLlama {
		faults = append(faults, errors.New("model_file needs the kind llama_server"))
	}

	if s.BaseURL != "" {
		faults = append(faults, errors.New("model_file and base_url exclude each other: "+
			"the gateway starts a server for the one, and calls a running one at the other"))
	}

	if s.APIKey != "" {
		faults = append(faults, errors.New("api_key must not be set beside model_file: the gateway makes a key"))
	}

	return append(faults, s.server().Faults()...)
}

// named returns the models of a source whose server the gateway runs: the server has one, whose
// id is the name of its file unless the settings set others.
func (s Source) named() []Model {
	alias := s.server().Alias()

	models := slices.Clone(s.Models)
	if len(models) == 0 {
		models = []Model{{ID: alias}}
	}

	for i, m := range models {
		models[i].UpstreamID = cmp.Or(m.UpstreamID, alias)
		models[i].ContextWindow = cmp.Or(m.ContextWindow, int64(s.Context))
	}

	return models
}

// inspect checks that this machine has the programs and model files of new or changed sources.
// It skips unchanged ones: a missing file must not prevent the withdrawal of a key.
func (s Settings) inspect(before *table) error {
	var faults []error

	for i, one := range s.Sources {
		if !one.runs() || before != nil && slices.ContainsFunc(before.set.Sources, func(old Source) bool {
			return old.server().Equal(one.server())
		}) {
			continue
		}

		if err := one.server().Inspect(); err != nil {
			faults = append(faults, fmt.Errorf("sources[%d]: %w", i, err))
		}
	}

	return errors.Join(faults...)
}

// fileOnly rejects changes of the programs that the gateway runs. A key of the management must
// not become a way to run programs, nor to make a program read any file: both are decided by
// who can write the file.
func (s Settings) fileOnly(before Settings) *apiError {
	for i, one := range s.Sources {
		if one.ModelFile == "" && one.Program == "" && len(one.Args) == 0 {
			continue
		}

		if !slices.ContainsFunc(before.Sources, func(old Source) bool {
			return old.Name == one.Name && old.ModelFile == one.ModelFile && old.Program == one.Program && slices.Equal(old.Args, one.Args)
		}) {
			return &apiError{
				status: http.StatusForbidden, Type: "permission_error", Code: "only_in_file",
				Message: fmt.Sprintf("sources[%d]: model_file, program and args are set in the file config.yaml only; "+
					"here they, and the name of their source, stay as they are", i),
			}
		}
	}

	return nil
}

// supervise assigns servers to the sources of the next table: the running ones of the previous
// table if their configuration is equal, else new ones. Servers without a source end after
// their requests, and new ones start only then, because both may not fit into the memory. The
// caller must hold the lock files.
func (s *Service) supervise(before, next *table) {
	kept := map[*localserver.Server]bool{}

	for _, one := range next.sources {
		if one.runs() && one.local == nil {
			one.use(before.serverLike(one.server()))
		}

		kept[one.local] = true
	}

	s.ending = slices.DeleteFunc(s.ending, func(old *localserver.Server) bool { return ended(old) })

	if before != nil {
		for _, one := range before.sources {
			if one.local != nil && !kept[one.local] {
				s.ending = append(s.ending, one.local)
				go one.retire(s.cut)
			}
		}
	}

	for _, one := range next.sources {
		if one.runs() && one.local == nil {
			one.use(localserver.New(one.server(), s.log, func() { s.loaded(one.Name) }))
		}
	}

	if s.serving {
		s.startServers(next)
	}
}

// startServers starts servers that do not run yet.
func (s *Service) startServers(t *table) {
	var before []<-chan struct{}
	for _, old := range s.ending {
		before = append(before, old.Done())
	}

	for _, one := range t.sources {
		if one.local != nil {
			one.local.Start(before...)
		}
	}
}

func ended(server *localserver.Server) bool {
	select {
	case <-server.Done():
		return true
	default:
		return false
	}
}

// serverLike returns the server of a table with the same configuration; nil: there is none.
func (t *table) serverLike(cfg localserver.Config) *localserver.Server {
	if t == nil {
		return nil
	}

	for _, one := range t.sources {
		if one.local != nil && one.server().Equal(cfg) {
			return one.local
		}
	}

	return nil
}

// use assigns a local server to the source.
func (s *source) use(server *localserver.Server) {
	if server == nil {
		return
	}

	s.local, s.APIKey = server, server.Key()
}

// retire ends the server of a removed source after its requests have ended, a timeout, or the
// end of the gateway.
func (s *source) retire(cut <-chan struct{}) {
	timer := time.NewTimer(removedDrain)
	defer timer.Stop()

	select {
	case <-s.queue.Idle():
	case <-timer.C:
	case <-cut:
	}

	s.local.Stop()
}

// loaded records that the server of a source is ready.
func (s *Service) loaded(name string) {
	for _, one := range s.table().sources {
		if one.Name == name && one.local != nil {
			one.recovered()
			one.warmed.Store(false)
		}
	}

	s.warmUp()
}

// recovered resets the faults of the previous process.
func (s *source) recovered() {
	s.breaker.succeeded()
	s.mu.Lock()
	defer s.mu.Unlock()

	s.fault, s.listedAt = "", time.Time{}
}

// starts starts the servers of the settings in effect.
func (s *Service) starts() {
	s.files.Lock()
	defer s.files.Unlock()

	s.serving = true
	s.startServers(s.table())
}

// endServers ends all servers, and waits until they have ended.
func (s *Service) endServers() {
	s.files.Lock()
	s.serving = false
	all := slices.Clone(s.ending)

	for _, one := range s.table().sources {
		if one.local != nil {
			all = append(all, one.local)
		}
	}

	s.files.Unlock()
	s.cutOnce.Do(func() { close(s.cut) })

	for _, server := range all {
		server.Stop()
	}

	ctx, cancel := context.WithTimeout(context.Background(), endTimeout)
	defer cancel()

	for _, server := range all {
		select {
		case <-server.Done():
		case <-ctx.Done():
			s.log.Error("failed to end a model server in time", "source", server.Config().Name)
		}
	}
}

// notReady returns the fault of a request while the source's server is not ready.
func (s *source) notReady() *apiError {
	if s.local == nil {
		return nil
	}

	switch now := s.local.Status(); now.State {
	case localserver.Ready:
		return nil
	case localserver.Starting, localserver.Loading:
		e := sourceFault(http.StatusServiceUnavailable, "source_starting", "the source "+s.Name+" takes no requests yet: "+now.Words())
		e.after = loadingAfter

		return e
	case localserver.Failed:
		e := unavailable("the source " + s.Name + " cannot be reached: " + s.clean(now.Words()))
		e.after = max(time.Until(now.Next), time.Second)

		return e
	case localserver.Ended:
	}

	return unavailable("the source " + s.Name + " was removed or changed; try again")
}

// broken reports whether the source receives no requests now.
func (s *source) broken(now time.Time) bool { return s.breaker.open(now) || s.notReady() != nil }

// address returns the base URL of the source, with /v1.
func (s *source) address() (string, error) {
	if s.local == nil {
		return s.base, nil
	}

	base, err := s.local.URL()

	return base + "/v1", err
}

// serverHealth is the state of a source's server, if the gateway runs it, in /health.
type serverHealth struct {
	State    localserver.State `json:"state"`
	Restarts int               `json:"restarts"`
	Next     *time.Time        `json:"next_start_at,omitempty"`
	Output   []string          `json:"output,omitempty"` // only with a management key
}

func (s *source) serverHealth(output bool) *serverHealth {
	if s.local == nil {
		return nil
	}

	now := s.local.Status()
	h := &serverHealth{State: now.State, Restarts: now.Restarts}

	if !now.Next.IsZero() {
		next := now.Next.UTC()
		h.Next = &next
	}

	if output {
		h.Output = now.Output
	}

	return h
}

// manages reports whether a request to a public path has a management key.
func (s *Service) manages(r *http.Request) bool {
	if credential(r) == "" {
		return false
	}

	callers := s.table().callers
	if by := find(callers, credential(r)); by != nil {
		return by == callers[0]
	}

	return s.administers(r) == nil
}
