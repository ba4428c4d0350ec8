package httpx

import (
	"strconv"

	"github.com/danielgtaylor/huma/v2"

	"everloop/auth"
)

// rateLimit refuses requests beyond the caller's rate. Every answer says what is
// left, in the fields of draft-ietf-httpapi-ratelimit-headers-06. That of a
// refusal has one moment in both RateLimit-Reset and Retry-After, as it asks.
func rateLimit(limiter *auth.Limiter) func(huma.Context, func(huma.Context)) {
	return func(ctx huma.Context, next func(huma.Context)) {
		allowance, err := limiter.Take(RequestOf(ctx.Context()).Caller)
		if allowance.Limit > 0 {
			ctx.SetHeader("RateLimit-Limit", strconv.Itoa(allowance.Limit))
			ctx.SetHeader("RateLimit-Remaining", strconv.Itoa(allowance.Left))
			ctx.SetHeader("RateLimit-Reset", strconv.Itoa(allowance.Reset))
		}

		if err != nil {
			Reject(ctx, err)
			return
		}

		next(ctx)
	}
}
