package httpx

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"log/slog"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/gofiber/fiber/v2"

	"everloop/domain"
)

// HeaderIdempotencyKey is the header by which a client marks repeats of a request.
const HeaderIdempotencyKey = "Idempotency-Key"

// CodeKeyInUse is the code of a key whose first request still runs.
const CodeKeyInUse = "idempotency_key_in_use"

// Once is the state of a request with an Idempotency-Key.
type Once struct {
	Key   string
	First *domain.StoredAnswer // of an earlier request with the key, for operations that answer repeats themselves

	userID  string
	request []byte // its fingerprint
	settled bool
	keys    *idempotency
}

// IdempotencyStore keeps which keys were used, and the answers.
type IdempotencyStore interface {
	// BeginIdempotent claims the key for a request that holder, a server, runs: nil means
	// that it runs, within two minutes from now or from the last RenewIdempotent.
	BeginIdempotent(ctx context.Context, holder, userID, key string, request []byte) (*domain.StoredAnswer, error)
	RenewIdempotent(ctx context.Context, userID, key string) error
	FinishIdempotent(ctx context.Context, userID, key string, answer *domain.StoredAnswer) error
	ReleaseIdempotent(ctx context.Context, userID, key string) error
}

// idempotency runs requests with an Idempotency-Key once.
type idempotency struct {
	store  IdempotencyStore
	holder string // names this server; see Config.Holder
	logger *slog.Logger
}

// middleware runs a request with an Idempotency-Key once. Only success is kept: what failed may be tried again with the same key.
func (k *idempotency) middleware(op Operation) func(huma.Context, func(huma.Context)) {
	return func(ctx huma.Context, next func(huma.Context)) {
		c, r := FiberOf(ctx), RequestOf(ctx.Context())

		key, err := idempotencyKey(c)
		if err != nil {
			Reject(ctx, err)
			return
		}

		if key == "" {
			next(ctx)
			return
		}

		r.Once = &Once{userID: r.Caller.User.ID, Key: key, request: fingerprint(c), keys: k}

		first, err := k.store.BeginIdempotent(ctx.Context(), k.holder, r.Once.userID, key, r.Once.request)
		if op.Joins && domain.HasCode(err, CodeKeyInUse) {
			r.Once.settled = true // the key is the first request's

			next(ctx)

			return
		}

		if err != nil {
			Reject(ctx, err)
			return
		}

		var form *formPrint
		if r.body != nil {
			form = printForm(c, r.body)
			defer form.end()
		}

		if first != nil {
			repeat(ctx, op, first, form, next)
			return
		}

		defer r.Once.free() // a panic passes through, and leaves the key free

		if op.Stream {
			defer r.Once.hold()()
		}

		next(ctx)

		response := c.Response()
		switch status := response.StatusCode(); {
		case status >= 300 || response.IsBodyStream():
		case op.Secret:
			r.Once.Keep(nil)
		default:
			answer := &domain.StoredAnswer{
				Status: status, ContentType: string(response.Header.ContentType()), Body: bytes.Clone(response.Body()),
			}
			if form != nil {
				answer.Form = form.end()
			}

			r.Once.Keep(answer)
		}
	}
}

// repeat answers as the first request with the key was answered. The body of a
// form is compared here: it was not known when the key was looked up.
func repeat(ctx huma.Context, op Operation, first *domain.StoredAnswer, form *formPrint, next func(huma.Context)) {
	if form != nil && !bytes.Equal(first.Form, form.rest(ctx.Context())) {
		Reject(ctx, domain.Newf(domain.Conflict, "idempotency_key_reused", "this Idempotency-Key was used for another request"))
		return
	}

	ctx.SetHeader("Idempotency-Replayed", "true")

	if op.Repeats {
		o := RequestOf(ctx.Context()).Once
		o.First, o.settled = first, true

		next(ctx)

		return
	}

	c := FiberOf(ctx)
	c.Status(first.Status).Set(fiber.HeaderContentType, first.ContentType)
	c.Response().SetBody(first.Body)
}

// idempotencyKey reads the header; "" when the request has none.
func idempotencyKey(c *fiber.Ctx) (string, error) {
	given := c.Request().Header.PeekAll(HeaderIdempotencyKey)
	wrong := func(message string) (string, error) {
		return "", domain.Invalidf("header."+HeaderIdempotencyKey, "%s", message)
	}

	switch {
	case len(given) == 0:
		return "", nil
	case len(given) > 1:
		return wrong("is given more than once")
	case len(given[0]) == 0:
		return wrong("is empty")
	case len(given[0]) > 255:
		return wrong("has more than 255 characters")
	}

	for _, b := range given[0] {
		if b < ' ' || b > '~' {
			return wrong("has characters other than printable ASCII")
		}
	}

	return string(given[0]), nil
}

// Keep stores the answer for repeats; nil is one with a secret. A nil once is a
// request without a key.
func (o *Once) Keep(answer *domain.StoredAnswer) {
	if o == nil || o.settled {
		return
	}

	o.settled = true
	o.settle(func(ctx context.Context) error { return o.keys.store.FinishIdempotent(ctx, o.userID, o.Key, answer) })
}

// free gives the key of a request that came to nothing back.
func (o *Once) free() {
	if o.settled {
		return
	}

	o.settle(func(ctx context.Context) error { return o.keys.store.ReleaseIdempotent(ctx, o.userID, o.Key) })
}

// settle runs in its own time: the request may be out of its.
func (o *Once) settle(write func(context.Context) error) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()

	if err := write(ctx); err != nil {
		o.keys.logger.Warn("failed to store idempotent response", "error", err)
	}
}

// renewEvery is well within the lease of a claim, which reports that its request
// has not died with its process.
const renewEvery = 30 * time.Second

// hold keeps the claim of a request that may take long, until the function that
// it returns is called.
func (o *Once) hold() (release func()) {
	done := make(chan struct{})
	ticks := time.NewTicker(renewEvery)

	go func() {
		for {
			select {
			case <-done:
				return
			case <-ticks.C:
				o.settle(func(ctx context.Context) error { return o.keys.store.RenewIdempotent(ctx, o.userID, o.Key) })
			}
		}
	}()

	return func() {
		ticks.Stop()
		close(done)
	}
}

// MessageID makes a client_message_id of the request, so that a message stays one
// message even when the process dies between its promise and the record of its
// answer.
func (o *Once) MessageID() string {
	h := sha256.New()
	writeSized(h, []byte(o.Key))
	writeSized(h, o.request)

	return "idempotency:" + hex.EncodeToString(h.Sum(nil)[:16])
}

// fingerprint names a request: same method, path, query and body, same name. A
// form is only being read by then, and is named by the rest alone.
func fingerprint(c *fiber.Ctx) []byte {
	h := sha256.New()
	fmt.Fprintf(h, "%s\n%s\n", c.Method(), c.OriginalURL())

	if RequestOf(c.UserContext()).body == nil {
		h.Write(c.Request().Body())
	}

	return h.Sum(nil)
}
