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

// lateKey is the context key of the function that reports whether a request's body timed out.
type lateKey struct{}

// forward proxies requests to a service and streams its responses: server-sent events,
// long-polling and WebSocket. It preserves the client's Host header, which the service compares
// with the Origin of the page.
func forward(to *url.URL, stall time.Duration, log *slog.Logger) http.Handler {
	proxy := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(to)
			r.Out.Host = r.In.Host
			chain, scheme := r.In.Header.Values("X-Forwarded-For"), r.In.Header.Get("X-Forwarded-Proto")
			r.Out.Header["X-Forwarded-For"] = chain // the service takes the last address that is not one of its proxies
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

				return // otherwise the client has disconnected
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
		// The responses have their own headers.
		for _, name := range []string{"Content-Security-Policy", "X-Content-Type-Options", "Referrer-Policy", edge.HeaderRequestID} {
			w.Header().Del(name)
		}
		// The service bounds the duration of a request: a stream is unlimited, and an upload
		// may take long. When the service aborts a request, so does the proxy. Otherwise a
		// client that stalls in its body would never receive a response.
		control := http.NewResponseController(w)
		_ = control.SetReadDeadline(time.Time{})
		_ = control.SetWriteDeadline(time.Time{})
		late := edge.Watch(w, r, stall)

		proxy.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), lateKey{}, late)))
	})
}
