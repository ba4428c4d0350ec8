package model

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"everloop/domain"
)

// maxRetryAfter caps a server's Retry-After at the maximum retry time of a session.
const maxRetryAfter = domain.MaxModelRetryS * time.Second

// retryAfter returns the delay of the response's headers: retry-after-ms, which OpenAI sends, or
// Retry-After in seconds or as a date. 0: none or invalid.
func retryAfter(h http.Header) time.Duration {
	if ms, err := strconv.ParseFloat(strings.TrimSpace(h.Get("Retry-After-Ms")), 64); err == nil {
		return bounded(ms / 1000)
	}

	value := strings.TrimSpace(h.Get("Retry-After"))
	if seconds, err := strconv.ParseFloat(value, 64); err == nil {
		return bounded(seconds)
	}

	if at, err := http.ParseTime(value); err == nil {
		return bounded(time.Until(at).Seconds())
	}

	return 0
}

func bounded(seconds float64) time.Duration {
	if !(seconds > 0) { // also refuses NaN
		return 0
	}

	if seconds > maxRetryAfter.Seconds() {
		return maxRetryAfter
	}

	return time.Duration(seconds * float64(time.Second))
}
