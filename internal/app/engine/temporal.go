package engine

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/contrib/envconfig"

	"everloop/domain"
	"everloop/infra/embedded"
	"everloop/infra/external"
	"everloop/infra/temporal"
	"everloop/internal/app/flags"
	"everloop/service/work"
	"everloop/terminal/doctor"
)

// TemporalSettings say where Temporal is. How it admits clients is in the TEMPORAL_…
// variables that Temporal's own tools read.
type TemporalSettings struct {
	TemporalAddress   string `env:"TEMPORAL_ADDRESS" help:"host:port of a Temporal server; embedded when unset."`
	TemporalNamespace string `default:"everloop" env:"TEMPORAL_NAMESPACE" help:"Temporal namespace."`
	TemporalUIURL     string `name:"temporal-ui-url" env:"TEMPORAL_UI_URL" help:"Address of Temporal's web UI for browsers, which the desktop's runs lead to."`

	DesktopLink string `name:"desktop-link" env:"DESKTOP_URL" help:"Address of the desktop, to which the details of runs in Temporal lead."`

	options client.Options // made of the variables, or those of the embedded server
}

// temporalClients are this process's connection to Temporal.
type temporalClients struct {
	Temporal client.Client
	Runs     temporal.Runs
}

// Engine is Temporal with these settings.
func (s *TemporalSettings) Engine() Engine {
	return Engine{
		Name: "temporal", Label: "Temporal", Title: "Durable execution (Temporal)", Variable: "TEMPORAL_ADDRESS",
		Hint:    "Check that Temporal runs and that TEMPORAL_ADDRESS and TEMPORAL_NAMESPACE are right.",
		Listens: []string{"TEMPORAL_ADDR", "TEMPORAL_UI_ADDR"},
		Address: func() string { return s.TemporalAddress },
		options: func(keys flags.Keys, dataDir string) (err error) {
			if s.TemporalAddress != "" {
				s.options, err = TemporalOptions(keys, dataDir)
			}

			return errors.Join(flags.CheckURL("TEMPORAL_UI_URL", s.TemporalUIURL), err)
		},

		Embed: func(how Embedding) []embedded.Engine {
			engines := []embedded.Engine{how.Temporal}
			if how.TemporalUI != nil {
				engines = append(engines, *how.TemporalUI)
			}

			return engines
		},
		Adopt: func(engines *embedded.Engines) {
			if server := embedded.Of[*embedded.Temporal](engines); server != nil {
				s.TemporalAddress, s.TemporalNamespace = server.Address(), embedded.Namespace
				s.options = server.ClientOptions()
			}
		},
		reach: func(engines *embedded.Engines, how Embedding) map[string]string {
			server := embedded.Of[*embedded.Temporal](engines)
			if server == nil {
				return nil
			}

			return map[string]string{
				"temporal_address": server.Address(), "temporal_namespace": embedded.Namespace, "temporal_api_key": how.Temporal.ServiceKey,
			}
		},
		open: s.open,
		check: func(ctx context.Context, c *Clients) (string, error) {
			_, err := c.Temporal.CheckHealth(ctx, &client.CheckHealthRequest{})
			return "serves namespace " + s.TemporalNamespace, err
		},
		probe: s.probe,
	}
}

// client returns the options of Temporal's client.
func (s *TemporalSettings) client() client.Options {
	options := s.options
	if options.HostPort == "" { // else it is reached inside the process
		options.HostPort = s.TemporalAddress
	}

	options.Namespace = s.TemporalNamespace

	return options
}

// open connects to the server.
func (s *TemporalSettings) open(ctx context.Context, c *Clients, p Process) (err error) {
	options := s.client()
	if options.Interceptors, err = p.Tracing.Interceptors(); err != nil {
		return err
	}

	if s.DesktopLink == "none" {
		s.DesktopLink = ""
	}

	if c.Temporal, err = temporal.Dial(ctx, options, p.Logger); err != nil {
		return err
	}

	c.closers = append(c.closers, c.Temporal.Close)

	generation, err := c.DB.Generation(ctx)
	if err != nil {
		return err
	}

	if err := (temporal.Database{Client: c.Temporal, Namespace: s.TemporalNamespace, Logger: p.Logger}).Claim(ctx, generation); err != nil {
		return err
	}

	c.Runs = temporal.Runs{Client: c.Temporal, Namespace: s.TemporalNamespace, Desktop: s.DesktopLink, Subjects: work.NewStore(c.DB.DB)}

	return nil
}

// probe adds the versions of the workers to the check of the server.
func (s *TemporalSettings) probe(ctx context.Context) []doctor.Check {
	var versions []doctor.Check

	server := external.ProbeTemporal(ctx, s.client(), func(ctx context.Context, c client.Client) {
		versions = workerVersions(ctx, temporal.Deployment{Client: c, Namespace: s.TemporalNamespace})
	})

	return append([]doctor.Check{doctor.CheckOf("Temporal", server)}, versions...)
}

// workerVersions returns which build of the workers gets new chats, and which may be
// stopped. A server that workers have not joined yet has nothing to say.
func workerVersions(ctx context.Context, d temporal.Deployment) []doctor.Check {
	refusal, err := d.Refusal(ctx)

	var look domain.WorkerDeployment
	if err == nil && refusal == nil {
		look, err = d.Look(ctx)
	}

	return doctor.WorkerVersions(look, refusal, errors.Join(err))
}

// TemporalOptions are those of clients of an external server: of the TEMPORAL_…
// variables, and, for the temporal role of this deployment, with its key where there is
// one and no other credential is set.
func TemporalOptions(keys flags.Keys, dataDir string) (client.Options, error) {
	options, err := external.Temporal(envconfig.EnvLookupOS)
	if err != nil || options.Credentials != nil || options.ConnectionOptions.TLS != nil {
		return options, err
	}

	file, err := keys.KeyFile(dataDir, temporalKeyFile)
	if err != nil {
		return options, err
	}

	key, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return options, nil
	}

	if err != nil {
		return options, fmt.Errorf("key for Temporal: %w", err)
	}

	options.Credentials = client.NewAPIKeyStaticCredentials(strings.TrimSpace(string(key)))
	options.ConnectionOptions.TLSDisabled = true // the library takes a key for a wish to use TLS

	return options, nil
}
