package external_test

import (
	"context"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"everloop/domain"
	"everloop/infra/external"
	"everloop/infra/temporal"
	"everloop/internal/testkit"
)

// variables is an environment of a test.
type variables map[string]string

func (v variables) LookupEnv(name string) (string, bool) {
	value, found := v[name]
	return value, found
}

func (v variables) Environ() (all []string) {
	for name, value := range v {
		all = append(all, name+"="+value)
	}

	return all
}

func TestTemporal_certificateAndAPIKey(t *testing.T) {
	t.Parallel()
	p := newPKI(t, "everloop")
	backend := testkit.Temporal(t)
	apiKey, namespace := testkit.Engines(t).Get(t, "temporal_api_key"), backend.Namespace
	addr := proxyTLS(t, p, backend.HostPort, true, true, func(r *http.Request) bool {
		return r.Header.Get("Authorization") == "Bearer "+apiKey
	})
	env := variables{
		"TEMPORAL_API_KEY": apiKey, "TEMPORAL_TLS_SERVER_CA_CERT_PATH": p.caFile,
		"TEMPORAL_TLS_CLIENT_CERT_PATH": p.clientCert, "TEMPORAL_TLS_CLIENT_KEY_PATH": p.clientKey,
	}
	options := temporalOptions(t, env, addr, namespace)
	c, err := temporal.Dial(t.Context(), options, slog.New(slog.DiscardHandler))
	require.NoError(t, err)

	defer c.Close()

	queue := testkit.Prefix(t)
	w := worker.New(c, queue, worker.Options{})
	w.RegisterWorkflowWithOptions(
		func(workflow.Context) (string, error) { return "over TLS", nil },
		workflow.RegisterOptions{Name: "Hello"},
	)

	require.NoError(t, w.Start())
	defer w.Stop()

	run, err := c.ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{ID: queue, TaskQueue: queue}, "Hello")
	require.NoError(t, err)

	var said string
	require.NoError(t, run.Get(t.Context(), &said))
	require.Equal(t, "over TLS", said)
	require.Eventually(t, func() bool { // a busy machine may not answer in time
		return temporalDiagnosis(t, options).Status == domain.CheckOK
	}, time.Minute, time.Millisecond)

	for name, change := range map[string]variables{
		"wrong key":      {"TEMPORAL_API_KEY": "another-hunter2"},
		"no certificate": {"TEMPORAL_TLS_CLIENT_CERT_PATH": "", "TEMPORAL_TLS_CLIENT_KEY_PATH": ""},
		"wrong CA":       {"TEMPORAL_TLS_SERVER_CA_CERT_PATH": p.otherCA},
		"no TLS":         {"TEMPORAL_TLS": "false"},
	} {
		t.Run(name, func(t *testing.T) {
			wrong := variables{}
			for variable, value := range env {
				wrong[variable] = value
			}

			for variable, value := range change {
				wrong[variable] = value
			}

			options := temporalOptions(t, wrong, addr, namespace)

			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()

			_, err := temporal.Dial(ctx, options, slog.New(slog.DiscardHandler))
			require.Error(t, err)
			require.NotContains(t, err.Error(), "hunter2")
			check := temporalDiagnosis(t, options)
			require.Equal(t, domain.CheckFail, check.Status)
			require.NotContains(t, check.Message, "hunter2")
		})
	}
}

func temporalOptions(t *testing.T, env variables, addr, namespace string) client.Options {
	options, err := external.Temporal(env)
	require.NoError(t, err)

	options.HostPort, options.Namespace = addr, namespace

	return options
}

func temporalDiagnosis(t *testing.T, options client.Options) domain.CheckResult {
	return external.ProbeTemporal(t.Context(), options, nil)
}

// An empty variable is as good as none: compose files pass them on empty, and the
// library would take the empty path of a certificate for the wish to use TLS.
func TestTemporal_emptyVariables(t *testing.T) {
	t.Parallel()

	options, err := external.Temporal(variables{
		"TEMPORAL_API_KEY": "", "TEMPORAL_TLS": "", "TEMPORAL_TLS_CLIENT_CERT_PATH": "", "TEMPORAL_TLS_SERVER_CA_CERT_PATH": "",
	})
	require.NoError(t, err)
	require.Nil(t, options.ConnectionOptions.TLS)
	require.Nil(t, options.Credentials)
}

func TestTemporal_faults(t *testing.T) {
	t.Parallel()

	p := newPKI(t, "everloop")
	for name, test := range map[string]struct {
		env  variables
		want string
	}{
		"not a boolean": {variables{"TEMPORAL_TLS": "yes"}, "TEMPORAL_TLS must be true or false"},
		"no key":        {variables{"TEMPORAL_TLS_CLIENT_CERT_PATH": p.clientCert}, "other must be present too"},
		"missing CA":    {variables{"TEMPORAL_TLS_SERVER_CA_CERT_PATH": p.dir + "/none.pem"}, "no such file"},
		"missing profile": {variables{
			"TEMPORAL_PROFILE":     "production",
			"TEMPORAL_CONFIG_FILE": p.dir + "/none.toml",
		}, "unable to find profile"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := external.Temporal(test.env)
			require.ErrorContains(t, err, test.want)
			require.True(t, strings.Contains(err.Error(), "TEMPORAL_"), err)
		})
	}
}
