package api

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/gofiber/fiber/v2"

	"everloop/domain"
)

const headerIdempotencyKey = "Idempotency-Key"

// once is the state of a request with an Idempotency-Key.
type once struct {
	userID  string
	key     string
	request []byte               // its fingerprint
	first   *domain.StoredAnswer // of an earlier request with the key, for operations that answer repeats themselves
	settled bool
}

// idempotent runs a request with an Idempotency-Key once (decisions.md section
// 2). Only success is kept: what failed may be tried again with the same key.
func (s *server) idempotent(op operation) func(huma.Context, func(huma.Context)) {
	return func(ctx huma.Context, next func(huma.Context)) {
		c, r := fiberOf(ctx), requestOf(ctx.Context())
		key, err := idempotencyKey(c)
		if err != nil {
			s.refuse(ctx, err)
			return
		}
		if key == "" {
			next(ctx)
			return
		}
		r.once = &once{userID: r.caller.User.ID, key: key, request: fingerprint(c)}
		first, err := s.Store.BeginIdempotent(ctx.Context(), r.once.userID, key, r.once.request)
		if err != nil {
			s.refuse(ctx, err)
			return
		}
		var form *formPrint
		if r.body != nil {
			form = printForm(c, r.body)
			defer form.end()
		}
		if first != nil {
			s.repeat(ctx, op, first, form, next)
			return
		}
		defer r.once.free(s) // a panic passes through, and leaves the key free
		if op.stream {
			defer r.once.hold(s)()
		}
		next(ctx)
		response := c.Response()
		switch status := response.StatusCode(); {
		case status >= 300 || response.IsBodyStream():
		case op.secret:
			r.once.keep(s, nil)
		default:
			answer := &domain.StoredAnswer{
				Status: status, ContentType: string(response.Header.ContentType()), Body: bytes.Clone(response.Body()),
			}
			if form != nil {
				answer.Form = form.end()
			}
			r.once.keep(s, answer)
		}
	}
}

// repeat answers as the first request with the key was answered. The body of a
// form is compared here: it was not known when the key was looked up.
func (s *server) repeat(ctx huma.Context, op operation, first *domain.StoredAnswer, form *formPrint, next func(huma.Context)) {
	if form != nil && !bytes.Equal(first.Form, form.rest(ctx.Context())) {
		s.refuse(ctx, domain.Newf(domain.Conflict, "idempotency_key_reused", "this Idempotency-Key was used for another request"))
		return
	}
	ctx.SetHeader("Idempotency-Replayed", "true")
	if op.repeats {
		o := requestOf(ctx.Context()).once
		o.first, o.settled = first, true
		next(ctx)
		return
	}
	c := fiberOf(ctx)
	c.Status(first.Status).Set(fiber.HeaderContentType, first.ContentType)
	c.Response().SetBody(first.Body)
}

// idempotencyKey reads the header; "" when the request has none.
func idempotencyKey(c *fiber.Ctx) (string, error) {
	given := c.Request().Header.PeekAll(headerIdempotencyKey)
	wrong := func(message string) (string, error) {
		return "", domain.Invalidf("header."+headerIdempotencyKey, "%s", message)
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

// keep stores the answer for repeats; nil is one with a secret. A nil once is a
// request without a key.
func (o *once) keep(s *server, answer *domain.StoredAnswer) {
	if o == nil || o.settled {
		return
	}
	o.settled = true
	o.settle(s, func(ctx context.Context) error { return s.Store.FinishIdempotent(ctx, o.userID, o.key, answer) })
}

// free gives the key of a request that came to nothing back.
func (o *once) free(s *server) {
	if o.settled {
		return
	}
	o.settle(s, func(ctx context.Context) error { return s.Store.ReleaseIdempotent(ctx, o.userID, o.key) })
}

// settle runs in a time of its own: the request may be out of its.
func (o *once) settle(s *server, write func(context.Context) error) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if err := write(ctx); err != nil {
		s.Logger.Warn("idempotency key not settled", "error", err)
	}
}

// renewEvery is well within the lease of a claim, which says that its request
// has not died with its process.
const renewEvery = 30 * time.Second

// hold keeps the claim of a request that may take long, until the function that
// it returns is called.
func (o *once) hold(s *server) (release func()) {
	done := make(chan struct{})
	ticks := time.NewTicker(renewEvery)
	go func() {
		for {
			select {
			case <-done:
				return
			case <-ticks.C:
				o.settle(s, func(ctx context.Context) error { return s.Store.RenewIdempotent(ctx, o.userID, o.key) })
			}
		}
	}()
	return func() {
		ticks.Stop()
		close(done)
	}
}

// messageID makes a client_message_id of the request, so that a message stays one
// message even when the process dies between its promise and the record of its
// answer.
func (o *once) messageID() string {
	h := sha256.New()
	writeSized(h, []byte(o.key))
	writeSized(h, o.request)
	return "idempotency:" + hex.EncodeToString(h.Sum(nil)[:16])
}

// fingerprint names a request: same method, path, query and body, same name. A
// form is only being read by then, and is named by the rest alone.
func fingerprint(c *fiber.Ctx) []byte {
	h := sha256.New()
	fmt.Fprintf(h, "%s\n%s\n", c.Method(), c.OriginalURL())
	if requestOf(c.UserContext()).body == nil {
		h.Write(c.Request().Body())
	}
	return h.Sum(nil)
}
