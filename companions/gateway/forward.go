package gateway

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"maps"
	"mime"
	"net/http"
	"slices"
	"strings"
	"time"

	"everloop/internal/limit"

	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"
)

const (
	maxSources = 3        // sources that one request is sent to, each of them once: clients retry
	maxAnswer  = 64 << 20 // bytes of an answer that is not streamed
	maxRefusal = 1 << 20  // bytes of a source's error

	refusalTime = 5 * time.Second // to read an error that another source may replace
	prefix      = 2048            // bytes of the messages that choose the source

	transcriptions = "/audio/transcriptions"
)

var errSlow = errors.New("the source sent nothing in time")

// call is one request in progress.
type call struct {
	service *Service
	by      *caller
	path    string
	body    body
	asked   string // the name in the request, repeated in the answer
	target  target
	meter   meter

	refused *refusal // of the last failed source; nil: none
}

// forward sends requests to the same path of a source.
func (s *Service) forward(path string) func(http.ResponseWriter, *http.Request, *caller) {
	return func(w http.ResponseWriter, r *http.Request, by *caller) {
		s.answer(w, r, by, path, func(*call) *apiError { return nil })
	}
}

// answer forwards a request with the body that translate returns.
func (s *Service) answer(w http.ResponseWriter, r *http.Request, by *caller, path string, translate func(*call) *apiError) {
	leave, ok := by.enter()
	if !ok {
		writeError(w, tooMany("key_limit", fmt.Sprintf("the key works on %d requests at once, which is its limit", by.most)))
		return
	}
	defer leave()

	b, release, fault := s.readBody(w, r)
	if fault != nil {
		writeError(w, fault)
		return
	}
	defer release()

	c := &call{service: s, by: by, path: path, body: b}

	c.meter = meter{prompt: len(b.text), transcription: path == transcriptions, audio: b.recording}
	if fault := translate(c); fault != nil {
		writeError(w, fault)
		return
	}

	if fault := c.body.checkPictures(); fault != nil {
		writeError(w, fault)
		return
	}

	if fault := c.resolve(r.Context()); fault != nil {
		writeError(w, fault)
		return
	}

	w.Header().Set("X-Resolved-Model", c.target.model)

	if fault := c.body.askable(path); fault != nil {
		writeError(w, fault)
		return
	}

	if fault := c.run(w, r); fault != nil {
		writeError(w, fault)
	}
}

func (c *call) resolve(ctx context.Context) (fault *apiError) {
	t := c.service.table()

	c.asked = c.body.model
	if c.asked == "" {
		c.asked = t.set.DefaultModel
		if c.path == transcriptions {
			c.asked = t.set.ASRModel
		}
	}

	if c.asked == "" {
		return invalid("the field model is missing, and no model is the default")
	}

	c.target, fault = t.resolve(ctx, c.by, c.asked)

	return fault
}

// run sends the request to a source, and to the next one as long as none has started to answer.
// It never sends to the same source twice. It returns a fault only while nothing was written.
func (c *call) run(w http.ResponseWriter, r *http.Request) *apiError {
	var last *apiError

	sources := c.order()
	sources = sources[:min(len(sources), maxSources)]

	for i, one := range sources {
		fault, again := c.try(w, r, one, i < len(sources)-1)
		if fault == nil {
			return nil
		}

		last = fault
		if r.Context().Err() != nil {
			return last
		}

		if again == never {
			return last
		}

		if again == notSent {
			break
		}
	}

	if c.refused == nil {
		return last
	}

	c.refuse(w, c.refused) // more specific than the fault of an unavailable source

	return nil
}

// again reports where a failed request can be sent next.
type again int

const (
	never       again = iota
	notSent           // to none, and the source did not get it
	otherSource       // to the next one
)

// try sends the request to one source.
func (c *call) try(w http.ResponseWriter, r *http.Request, to *source, others bool) (*apiError, again) {
	if fault := to.notReady(); fault != nil {
		return fault, otherSource
	}

	ok, as, after := to.breaker.allow(time.Now())
	if !ok {
		e := unavailable("the source " + to.Name + " has failed again and again; it is tried again soon")
		e.after = after

		return e, otherSource
	}

	release, err := to.queue.AcquireWithin(r.Context(), c.by.name, to.wait())
	if err != nil {
		to.breaker.abandoned(as)

		switch {
		case errors.Is(err, limit.ErrFull):
			return tooMany("queue_full", "the queue of the source "+to.Name+" is full; try again"), otherSource
		case errors.Is(err, limit.ErrWaited):
			return tooMany("queue_timeout", "the source "+to.Name+" had no place in time; try again"), notSent
		}

		return sourceFault(499, "client_gone", "the client left"), never
	}
	defer release()

	if !c.service.table().accepts(c.by, c.asked, c.target.model) {
		to.breaker.abandoned(as)
		return noKey(), never // it was revoked while the request waited
	}

	ctx, cancel := context.WithCancelCause(r.Context())
	defer cancel(nil)

	began := time.Now()

	timer := time.AfterFunc(to.timeout(), func() { cancel(errSlow) })
	defer timer.Stop()

	res, err := c.send(ctx, to)
	if err != nil {
		return c.failed(ctx, to, as, err)
	}
	defer res.Body.Close()

	to.answered(time.Since(began))

	if others && slices.Contains([]int{429, 502, 503, 504}, res.StatusCode) {
		timer.Reset(min(refusalTime, to.timeout())) // bounds the wait of the next source
		c.refused = refusalOf(res, to)

		return unavailable(fmt.Sprintf("the source %s has status %d", to.Name, res.StatusCode)), otherSource
	}

	if res.StatusCode != http.StatusOK {
		refused := refusalOf(res, to)

		release() // its client may be slow
		c.refuse(w, refused)

		return nil, never
	}

	defer func() { c.service.usage.add(c.by.name, c.target.model, c.meter.tally()) }()

	switch kind, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type")); {
	case kind == "text/event-stream":
		(&relay{call: c, to: to, w: w, cancel: cancel, timer: timer, due: began.Add(to.timeout())}).run(ctx, res)
	default:
		text, fault := c.whole(ctx, res, to)
		if fault != nil {
			return fault, never
		}

		release() // its client may be slow
		w.Header().Set("Content-Type", cmp.Or(res.Header.Get("Content-Type"), "application/json"))
		w.WriteHeader(http.StatusOK)
		_, _ = w.Write(text) // the client may have disconnected
	}

	return nil, never
}

func (c *call) send(ctx context.Context, to *source) (*http.Response, error) {
	text, kind, err := c.body.named(c.target.upstream[to], c.path == "/chat/completions")
	if err != nil {
		return nil, err
	}

	r, err := to.request(ctx, http.MethodPost, c.path, bytes.NewReader(text), kind)
	if err != nil {
		return nil, err
	}

	return to.client.Do(r)
}

// failed returns the fault of a request without a response.
func (c *call) failed(ctx context.Context, to *source, as probe, err error) (*apiError, again) {
	switch {
	case errors.Is(context.Cause(ctx), errSlow):
		to.unreachable(errSlow, as)
		return sourceFault(http.StatusGatewayTimeout, "source_timeout", "the source "+to.Name+" did not answer in time"), otherSource
	case ctx.Err() != nil:
		to.breaker.abandoned(as)
		c.service.usage.add(c.by.name, c.target.model, c.meter.tally())

		return sourceFault(499, "client_gone", "the client left"), never
	}

	to.unreachable(err, as)
	c.service.log.Warn("failed to reach a source", "source", to.Name, "error", to.clean(cause(err)))

	return unavailable("the source " + to.Name + " cannot be reached: " + to.clean(cause(err))), otherSource
}

// refusal is the error response of a source.
type refusal struct {
	status int
	header http.Header // with Retry-After
	text   []byte
}

func refusalOf(res *http.Response, from *source) *refusal {
	text, _ := io.ReadAll(io.LimitReader(res.Body, maxRefusal)) // a partial text is passed on
	if from.APIKey != "" {
		text = bytes.ReplaceAll(text, []byte(from.APIKey), []byte("***"))
	}

	r := &refusal{status: res.StatusCode, header: http.Header{}, text: text}
	if r.status < 400 {
		r.status = http.StatusBadGateway
	}

	for _, name := range []string{"Retry-After", "Retry-After-Ms"} {
		if value := res.Header.Get(name); value != "" {
			r.header.Set(name, value)
		}
	}

	if !json.Valid(text) || !gjson.ParseBytes(text).IsObject() || r.status != res.StatusCode {
		message := from.clean(strings.TrimSpace(strings.ToValidUTF8(string(text), "")))
		message = fmt.Sprintf("the source %s has status %d: %s", from.Name, res.StatusCode, message)
		r.text = sourceFault(r.status, "source_error", message).object()
	}

	return r
}

// refuse passes on a refusal, which counts as a request without tokens.
func (c *call) refuse(w http.ResponseWriter, r *refusal) {
	c.meter.reported = &tally{Requests: 1}
	c.service.usage.add(c.by.name, c.target.model, c.meter.tally())
	maps.Copy(w.Header(), r.header)
	writeBody(w, r.status, r.text)
}

// whole reads an answer that is not streamed.
func (c *call) whole(ctx context.Context, res *http.Response, to *source) ([]byte, *apiError) {
	text, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer+1))
	switch {
	case err != nil && errors.Is(context.Cause(ctx), errSlow):
		return nil, sourceFault(http.StatusGatewayTimeout, "source_timeout", "the source "+to.Name+" did not answer in time")
	case err != nil:
		return nil, sourceFault(http.StatusBadGateway, "source_cut", "the answer of the source "+to.Name+" was cut")
	case len(text) > maxAnswer:
		return nil, sourceFault(http.StatusBadGateway, "source_error", "the answer of the source "+to.Name+" is too long")
	}

	switch {
	case json.Valid(text) && gjson.ParseBytes(text).IsObject():
		c.meter.read(text)
		text = c.echo(text)
	case c.path != transcriptions: // transcriptions may be plain text
		return nil, sourceFault(http.StatusBadGateway, "source_error", "the answer of the source "+to.Name+" is not a JSON object")
	}

	c.meter.pieces = int64(len(text) / bytesPerToken)

	return text, nil
}

// echo returns an object of the answer with the model's name as the client requested it.
func (c *call) echo(object []byte) []byte {
	model := gjson.GetBytes(object, "model")
	if !model.Exists() || model.String() == c.asked {
		return object
	}

	if named, err := sjson.SetBytes(object, "model", c.asked); err == nil {
		return named
	}

	return object
}

// order returns the sources of the model: available ones before broken ones, free ones before
// busy ones, and otherwise by a hash of the start of the conversation, so that a conversation
// returns to the source that may have it in its cache.
func (c *call) order() []*source {
	sources := slices.Clone(c.target.sources)
	if len(sources) < 2 {
		return sources
	}

	begin := c.prefix()
	now := time.Now()

	type rank struct {
		broken, busy bool
		score        uint64
	}

	ranks := map[*source]rank{}

	for _, s := range sources {
		hash := fnv.New64a()
		_, _ = io.WriteString(hash, s.Name) // a hash never fails
		_, _ = hash.Write(begin)
		ranks[s] = rank{broken: s.broken(now), busy: !s.queue.Free(), score: mix(hash.Sum64())}
	}

	slices.SortStableFunc(sources, func(a, b *source) int {
		x, y := ranks[a], ranks[b]
		return cmp.Or(compareBool(x.broken, y.broken), compareBool(x.busy, y.busy), cmp.Compare(x.score, y.score))
	})

	return sources
}

// prefix returns the beginning of the conversation.
func (c *call) prefix() []byte {
	if c.body.boundary != "" {
		return nil
	}

	messages := gjson.GetBytes(c.body.text, "messages").Raw

	return []byte(c.target.model + messages[:min(len(messages), prefix)])
}

// mix spreads the bits of an FNV hash, whose order otherwise depends mainly on the last bytes.
func mix(h uint64) uint64 {
	h ^= h >> 33
	h *= 0xff51afd7ed558ccd
	h ^= h >> 33

	return h
}

func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	}

	return -1
}

// warmUp sends a short request to the models of sources that must be warm before the first
// request.
func (s *Service) warmUp() {
	for _, one := range s.table().sources {
		if !one.WarmUp || one.notReady() != nil || !one.warmed.CompareAndSwap(false, true) {
			continue
		}

		for _, m := range one.Models {
			go s.warm(one, cmp.Or(m.UpstreamID, m.ID))
		}
	}
}

func (s *Service) warm(to *source, model string) {
	ctx, cancel := context.WithTimeout(context.Background(), to.timeout())
	defer cancel()

	text, _ := sjson.SetBytes([]byte(`{"messages":[{"role":"user","content":"Hello"}],"max_tokens":1}`), "model", model)

	release, err := to.queue.AcquireWithin(ctx, "warm-up", to.timeout())
	if err != nil {
		return
	}
	defer release()

	r, err := to.request(ctx, http.MethodPost, "/chat/completions", bytes.NewReader(text), "application/json")
	if err != nil {
		return
	}

	res, err := to.client.Do(r)
	if err != nil {
		s.log.Warn("failed to warm up a model", "source", to.Name, "model", model, "error", to.clean(cause(err)))
		return
	}
	defer res.Body.Close()

	_, _ = io.Copy(io.Discard, io.LimitReader(res.Body, maxRefusal)) // the answer does not matter
	s.log.Info("warmed up a model", "source", to.Name, "model", model, "status", res.StatusCode)
}
