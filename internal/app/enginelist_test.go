package app

import (
	"context"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"everloop/infra/embedded"
	"everloop/terminal/doctor"
)

// Every engine has all parts, and no other one has its name or its variable.
func TestEngineList_complete(t *testing.T) {
	t.Parallel()

	seen := map[string]bool{}
	only, _ := reflect.TypeFor[Engines]().FieldByName("Only")

	for _, e := range engineList() {
		for _, text := range []string{e.name, e.label, e.title, e.variable, e.hint} {
			require.NotEmpty(t, text, e.name)
		}

		for what, missing := range map[string]bool{
			"address": e.address == nil, "options": e.options == nil, "embed": e.embed == nil, "adopt": e.adopt == nil,
			"reach": e.reach == nil, "open": e.open == nil, "check": e.check == nil, "probe": e.probe == nil,
		} {
			require.False(t, missing, "%s has no %s", e.name, what)
		}

		require.False(t, seen[e.name] || seen[e.variable], e.name)
		seen[e.name], seen[e.variable] = true, true
		require.Contains(t, e.hint, e.variable)
		require.Contains(t, only.Tag.Get("help"), e.name)

		// An engine that was not started is left out.
		require.Nil(t, e.reach(&embedded.Engines{}, embedding{}), e.name)

		var s settings
		e.adopt(&s, &embedded.Engines{})
		require.Empty(t, e.address(&s), e.name)
	}
}

func TestEngine_where(t *testing.T) {
	t.Parallel()

	s := &settings{}
	s.DatabaseURL, s.S3Endpoint = "postgres://user:hunter2@db/x", "s3.example.org:443"
	require.Equal(t, "external, by DATABASE_URL", postgresEngine().where(s, false))
	require.Equal(t, "embedded", postgresEngine().where(s, true))
	require.Equal(t, "s3.example.org:443   external", objectsEngine().where(s, false))
	require.Equal(t, "s3.example.org:443   embedded", objectsEngine().where(s, true))
}

// An engine that hangs fails its check before a readiness request ends.
func TestEngine_run_timeLimit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		hanging := engine{check: func(ctx context.Context, _ *backend) (string, error) {
			<-ctx.Done()
			return "", ctx.Err()
		}}
		_, err := hanging.run(t.Context(), nil)
		require.ErrorIs(t, err, context.DeadlineExceeded)
	})
}

func TestEngines_only(t *testing.T) {
	t.Parallel()

	_, err := (&Engines{Only: []string{"postgres", "mysql"}}).chosen()
	require.ErrorContains(t, err, `there is no engine "mysql"`)
	chosen, err := (&Engines{Only: []string{"nats"}}).chosen()
	require.NoError(t, err)
	require.Len(t, chosen, 1)
	require.Len(t, (&Engines{}).config(chosen).Engines, 1)
	all, err := (&Engines{UI: true}).chosen()
	require.NoError(t, err)
	require.Len(t, (&Engines{UI: true}).config(all).Engines, len(engineList())+1, "Temporal has its UI besides")
}

// A role without embedded engines names every address that it misses.
func TestSettings_external(t *testing.T) {
	t.Parallel()

	err := (&settings{}).external()
	for _, e := range engineList() {
		require.ErrorContains(t, err, e.variable)
	}

	require.ErrorContains(t, err, "LLM_GATEWAY_URL")
}

func TestDoctor_settings(t *testing.T) {
	t.Parallel()

	c := &Doctor{}
	c.Start.DataDir, c.Start.TemporalAddr, c.Start.TemporalAddress = t.TempDir(), "127.0.0.1:7233", "temporal.example.org:7233"
	found := c.settings()
	require.Len(t, found.Engines, len(engineList()))

	for _, a := range found.Addresses {
		require.False(t, strings.HasPrefix(a.Variable, "TEMPORAL_"), "the embedded Temporal is not started: %s", a.Variable)
	}

	c.Start.TemporalAddress = ""
	require.Contains(t, c.settings().Addresses, doctor.Address{Variable: "TEMPORAL_ADDR", Addr: "127.0.0.1:7233"})
}
