package api_test

import (
	"encoding/json"
	"log/slog"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"everloop/api"
	"everloop/internal/hosts"
)

func TestServer_rejectsReboundHost(t *testing.T) {
	app := api.New(
		api.Config{
			Version: "1.0.0",
			Logger:  slog.New(slog.DiscardHandler),
			Hosts:   hosts.List{"everloop.example.org"},
		},
		api.Areas{},
	)

	for host, want := range map[string]int{
		"127.0.0.1:8020": 200, "localhost": 200, "everloop.example.org": 200, "evil.example": 403, "evil.example:8020": 403,
	} {
		for _, path := range []string{"/api/openapi.json", "/api/docs"} {
			request := httptest.NewRequest("GET", path, nil)
			request.Host = host
			answer, err := app.Test(request, -1)
			require.NoError(t, err)
			require.Equal(t, want, answer.StatusCode, "%s %s", host, path)

			if want == 403 {
				var problem struct{ Code string }
				require.NoError(t, json.NewDecoder(answer.Body).Decode(&problem))
				require.Equal(t, "host_not_allowed", problem.Code)
			}

			require.NoError(t, answer.Body.Close())
		}
	}
}
