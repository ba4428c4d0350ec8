package desktop

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"time"

	"everloop/companions/edge"
)

// lateKey is the key of a request's context that reports whether its body came too late.
type lateKey struct{}

// forward passes requests to a service and its answers back as they come: server-sent
// events, long-polling and WebSocket. The host stays that of the client, which the service
// compares with the Origin of the page.
func forward(to *url.URL, stall time.Duration, log *slog.Logger) http.Handler {
	proxy := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(to)
			r.Out.Host = r.In.Host
			chain, scheme := r.In.Header.Values("X-Forwarded-For"), r.In.Header.Get("X-Forwarded-Proto")
			r.Out.Header["X-Forwarded-For"] = chain // the service takes the last one that is no proxy of its own
			r.SetXForwarded()

			if scheme != "" {
				r.Out.Header.Set("X-Forwarded-Proto", scheme)
			}
		},
		Transport: &http.Transport{
			DialContext:         (&net.Dialer{Timeout: 5 * time.Second, KeepAlive: 30 * time.Second}).DialContext,
			MaxIdleConnsPerHost: 64, IdleConnTimeout: time.Minute, DisableCompression: true, ResponseHeaderTimeout: 5 * time.Minute,
		},
		FlushInterval: -1,
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
			if r.Context().Err() != nil {
				if late, ok := r.Context().Value(lateKey{}).(func() bool); ok && late() {
					edge.Write(w, edge.Refuse(http.StatusRequestTimeout, "request_timeout", "the body of the request did not come in time"))
				}

				return // else the client has gone
			}

			if _, large := errors.AsType[*http.MaxBytesError](err); large {
				edge.Write(w, edge.Refuse(http.StatusRequestEntityTooLarge, "body_too_large", "the body is too large"))
				return
			}

			log.Warn("failed to reach a service", "service", to.Host, "method", r.Method, "error", err)
			edge.Write(w, edge.Refuse(http.StatusServiceUnavailable, "dependency_unavailable", "the service cannot be reached: try again"))
		},
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}

	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// The answers have headers of their own.
		for _, name := range []string{"Content-Security-Policy", "X-Content-Type-Options", "Referrer-Policy", edge.HeaderRequestID} {
			w.Header().Del(name)
		}
		// How long a request takes is for the service to bound: a stream has no end, and an
		// upload may be long. When the service gives up, so does this. A client that stops in
		// a body would otherwise get no answer.
		control := http.NewResponseController(w)
		_ = control.SetReadDeadline(time.Time{})
		_ = control.SetWriteDeadline(time.Time{})
		late := edge.Watch(w, r, stall)

		proxy.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), lateKey{}, late)))
	})
}
