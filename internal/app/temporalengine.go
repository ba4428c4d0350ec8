package app

import (
	"context"
	"errors"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/contrib/envconfig"

	"everloop/domain"
	"everloop/infra/embedded"
	"everloop/infra/external"
	"everloop/infra/temporal"
	"everloop/terminal/doctor"
)

// temporalSettings say where Temporal is. How it admits clients is in the TEMPORAL_…
// variables that Temporal's own tools read.
type temporalSettings struct {
	TemporalAddress   string `env:"TEMPORAL_ADDRESS" help:"host:port of a Temporal server; embedded when unset."`
	TemporalNamespace string `default:"everloop" env:"TEMPORAL_NAMESPACE" help:"Temporal namespace."`

	temporalOptions client.Options // made of the variables, or those of the embedded server
}

// temporalClients are this process's connection to Temporal.
type temporalClients struct {
	temporal client.Client
	runs     temporal.Runs
}

func temporalEngine() engine {
	return engine{
		name: "temporal", label: "Temporal", title: "Durable execution (Temporal)", variable: "TEMPORAL_ADDRESS",
		hint:    "Check that Temporal runs and that TEMPORAL_ADDRESS and TEMPORAL_NAMESPACE are right.",
		listens: []string{"TEMPORAL_ADDR", "TEMPORAL_UI_ADDR"},
		address: func(s *settings) string { return s.TemporalAddress },
		options: func(s *settings) error {
			if s.TemporalAddress == "" {
				return nil
			}

			options, err := external.Temporal(envconfig.EnvLookupOS)
			if err == nil {
				options, err = s.ownTemporal(s.DataDir, options)
			}

			s.temporalOptions = options

			return err
		},
		embed: func(e embedding) []embedded.Engine {
			engines := []embedded.Engine{e.temporal}
			if e.temporalUI != nil {
				engines = append(engines, *e.temporalUI)
			}

			return engines
		},
		adopt: func(s *settings, engines *embedded.Engines) {
			if server := embedded.Of[*embedded.Temporal](engines); server != nil {
				s.TemporalAddress, s.TemporalNamespace = server.Address(), embedded.Namespace
				s.temporalOptions = server.ClientOptions()
			}
		},
		reach: func(engines *embedded.Engines, e embedding) map[string]string {
			server := embedded.Of[*embedded.Temporal](engines)
			if server == nil {
				return nil
			}

			return map[string]string{
				"temporal_address": server.Address(), "temporal_namespace": embedded.Namespace, "temporal_api_key": e.temporal.ServiceKey,
			}
		},
		open: openTemporal,
		check: func(ctx context.Context, b *backend) (string, error) {
			_, err := b.temporal.CheckHealth(ctx, &client.CheckHealthRequest{})
			return "serves namespace " + b.settings.TemporalNamespace, err
		},
		probe: probeTemporal,
	}
}

// temporalClient gives the options of Temporal's client.
func (s *temporalSettings) temporalClient() client.Options {
	options := s.temporalOptions
	if options.HostPort == "" { // else it is reached inside the process
		options.HostPort = s.TemporalAddress
	}

	options.Namespace = s.TemporalNamespace

	return options
}

func openTemporal(ctx context.Context, b *backend) (err error) {
	options := b.settings.temporalClient()
	if options.Interceptors, err = b.tracing.Interceptors(); err != nil {
		return err
	}

	if b.temporal, err = temporal.Dial(ctx, options, b.logger); err != nil {
		return err
	}

	b.closers = append(b.closers, b.temporal.Close)
	b.runs = temporal.Runs{Client: b.temporal, Namespace: b.settings.TemporalNamespace, Owners: b.db}

	return nil
}

// probeTemporal adds the versions of the workers to the check of the server.
func probeTemporal(ctx context.Context, s *settings) []doctor.Check {
	var versions []doctor.Check

	server := external.ProbeTemporal(ctx, s.temporalClient(), func(ctx context.Context, c client.Client) {
		versions = workerVersions(ctx, temporal.Deployment{Client: c, Namespace: s.TemporalNamespace})
	})

	return append([]doctor.Check{doctor.CheckOf("Temporal", server)}, versions...)
}

// workerVersions says which build of the workers gets new chats, and which may be
// stopped. A server that workers have not joined yet has nothing to say.
func workerVersions(ctx context.Context, d temporal.Deployment) []doctor.Check {
	refusal, err := d.Refusal(ctx)

	var look domain.WorkerDeployment
	if err == nil && refusal == nil {
		look, err = d.Look(ctx)
	}

	return doctor.WorkerVersions(look, refusal, errors.Join(err))
}
