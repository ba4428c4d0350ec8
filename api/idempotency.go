package api

import (
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
	first   *domain.StoredAnswer // of an earlier request with the key, for operations that answer repeats themselves
	settled bool
}

// idempotent runs a request with an Idempotency-Key once (decisions.md section
// 2). Only success is kept: what failed may be tried again with the same key.
func (s *server) idempotent(op operation) func(huma.Context, func(huma.Context)) {
	return func(ctx huma.Context, next func(huma.Context)) {
		key := ctx.Header(headerIdempotencyKey)
		if key == "" {
			next(ctx)
			return
		}
		if len(key) > 255 {
			s.refuse(ctx, domain.Invalidf("header."+headerIdempotencyKey, "has more than 255 characters"))
			return
		}
		c, r := fiberOf(ctx), requestOf(ctx.Context())
		r.once = &once{userID: r.caller.User.ID, key: key}
		first, err := s.Store.BeginIdempotent(ctx.Context(), r.once.userID, key, fingerprint(c))
		if err != nil {
			s.refuse(ctx, err)
			return
		}
		if first != nil {
			ctx.SetHeader("Idempotency-Replayed", "true")
			if op.repeats {
				r.once.first, r.once.settled = first, true
				next(ctx)
				return
			}
			c.Status(first.Status).Set(fiber.HeaderContentType, first.ContentType)
			c.Response().SetBody(first.Body)
			return
		}
		defer r.once.free(s) // a panic passes through, and leaves the key free
		next(ctx)
		response := c.Response()
		switch status := response.StatusCode(); {
		case status >= 300 || response.IsBodyStream():
		case op.secret:
			r.once.keep(s, nil)
		default:
			body := append([]byte(nil), response.Body()...)
			r.once.keep(s, &domain.StoredAnswer{
				Status: status, ContentType: string(response.Header.ContentType()), Body: body,
			})
		}
	}
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

// messageID makes a client_message_id of the key, so that a message stays one
// message even when the process dies between its promise and the record of its
// answer.
func (o *once) messageID() string {
	sum := sha256.Sum256([]byte(o.key))
	return "idempotency:" + hex.EncodeToString(sum[:16])
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
