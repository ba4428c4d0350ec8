package engine

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"everloop/infra/embedded"
)

// Every engine has all parts, and no other one has its name or its variable.
func TestSettings_Engines_complete(t *testing.T) {
	t.Parallel()

	seen := map[string]bool{}

	var s Settings
	for _, e := range s.Engines() {
		for _, text := range []string{e.Name, e.Label, e.Title, e.Variable, e.Hint} {
			require.NotEmpty(t, text, e.Name)
		}

		for what, missing := range map[string]bool{
			"address": e.Address == nil, "options": e.options == nil, "embed": e.Embed == nil, "adopt": e.Adopt == nil,
			"reach": e.reach == nil, "open": e.open == nil, "check": e.check == nil, "probe": e.probe == nil,
		} {
			require.False(t, missing, "%s has no %s", e.Name, what)
		}

		require.False(t, seen[e.Name] || seen[e.Variable], e.Name)
		seen[e.Name], seen[e.Variable] = true, true
		require.Contains(t, e.Hint, e.Variable)

		// An engine that was not started is left out.
		require.Nil(t, e.reach(&embedded.Engines{}, Embedding{}), e.Name)
		e.Adopt(&embedded.Engines{})
		require.Empty(t, e.Address(), e.Name)
	}
}

func TestEngine_Where(t *testing.T) {
	t.Parallel()

	s := &Settings{}
	s.DatabaseURL, s.S3Endpoint = "postgres://user:hunter2@db/x", "s3.example.org:443"
	require.Equal(t, "external, by DATABASE_URL", s.PostgresSettings.Engine().Where(false))
	require.Equal(t, "embedded", s.PostgresSettings.Engine().Where(true))
	require.Equal(t, "s3.example.org:443   external", s.ObjectsSettings.Engine().Where(false))
	require.Equal(t, "s3.example.org:443   embedded", s.ObjectsSettings.Engine().Where(true))
}

// An engine that hangs fails its check before a readiness request ends.
func TestEngine_Check_timeLimit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		hanging := Engine{check: func(ctx context.Context, _ *Clients) (string, error) {
			<-ctx.Done()
			return "", ctx.Err()
		}}
		_, err := hanging.Check(t.Context(), nil)
		require.ErrorIs(t, err, context.DeadlineExceeded)
	})
}

func TestCommand_chosen(t *testing.T) {
	t.Parallel()

	_, err := (&Command{Only: []string{"postgres", "mysql"}}).chosen()
	require.ErrorContains(t, err, `there is no engine "mysql", only postgres, objects, nats, temporal`)
	chosen, err := (&Command{Only: []string{"nats"}}).chosen()
	require.NoError(t, err)
	require.Len(t, chosen, 1)
	require.Len(t, (&Command{}).config(chosen).Engines, 1)
	all, err := (&Command{UI: true}).chosen()
	require.NoError(t, err)
	require.Len(t, (&Command{UI: true}).config(all).Engines, len((&Settings{}).Engines())+1, "Temporal has its UI besides")
}
