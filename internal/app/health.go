package app

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"everloop/api/system"
)

// health answers the checks of a role that has no API.
func (b *backend) health() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(b.metrics, promhttp.HandlerOpts{}))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, http.StatusOK, map[string]string{"status": "ok"})
	})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), 5*time.Second)
		defer cancel()

		status, checks := http.StatusOK, map[string]string{}

		for name, err := range b.ready(ctx) {
			_, degraded := errors.AsType[system.Degraded](err)
			switch {
			case err == nil:
				checks[name] = "ok"
			case degraded:
				checks[name] = "degraded"
			default:
				status, checks[name] = http.StatusServiceUnavailable, "down"
			}
		}

		answer(w, status, checks)
	})

	return mux
}

// ready checks every dependency, by name.
func (b *backend) ready(ctx context.Context) map[string]error {
	checks := b.settings.Ready(ctx, b.Clients)
	checks["disk"] = b.checkSpace()

	return checks
}

func answer(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // the client has gone, nothing must be done
}
