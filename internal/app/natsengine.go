package app

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/nats-io/nats.go"

	"everloop/infra/embedded"
	"everloop/infra/events"
	"everloop/infra/external"
	"everloop/terminal/doctor"
)

// natsSettings say where the event log is and how its server admits this process.
type natsSettings struct {
	NATSURL       string `name:"nats-url" env:"NATS_URL" help:"NATS server with JetStream; embedded when unset."`
	EventLogBytes int64  `default:"8589934592" env:"EVENT_LOG_BYTES" help:"Bytes of the event log; beyond it the oldest events go before they are 24 hours old. 0: no limit."`
	NATSReplicas  int    `name:"nats-replicas" default:"1" env:"NATS_REPLICAS" help:"NATS servers that keep each event: 1, 3 or 5. Those of an existing event log are raised and never lowered."`
	NATSCreds     string `name:"nats-creds" env:"NATS_CREDS" help:"File of credentials (JWT and seed) for NATS."`
	NATSNKey      string `name:"nats-nkey-file" env:"NATS_NKEY_FILE" help:"File with the seed of an nkey for NATS."`
	NATSCA        string `name:"nats-ca-file" env:"NATS_CA_FILE" help:"CA of the NATS server's certificate, as PEM."`
	NATSCert      string `name:"nats-cert-file" env:"NATS_CERT_FILE" help:"Certificate for NATS, as PEM."`
	NATSKey       string `name:"nats-key-file" env:"NATS_KEY_FILE" help:"Its key, as PEM."`

	natsOptions []nats.Option    // made of the files
	natsInside  *embedded.Events // nil: the server is elsewhere
}

// natsClients are this process's connection to NATS, and what is built on it.
type natsClients struct {
	nats    *nats.Conn
	log     *events.Log
	signals *events.Signals
}

func natsEngine() engine {
	return engine{
		name: "nats", label: "NATS", title: "Event log (NATS JetStream)", variable: "NATS_URL", secret: true,
		hint:    "Check that NATS runs with JetStream and that NATS_URL is right.",
		address: func(s *settings) string { return s.NATSURL },
		options: func(s *settings) (err error) {
			if s.NATSURL == "" {
				return s.checkReplicas()
			}

			faults := []error{s.checkReplicas(), absolutePaths(map[string]*string{
				"NATS_CREDS": &s.NATSCreds, "NATS_NKEY_FILE": &s.NATSNKey, "NATS_CA_FILE": &s.NATSCA,
				"NATS_CERT_FILE": &s.NATSCert, "NATS_KEY_FILE": &s.NATSKey,
			})}
			s.natsOptions, err = external.NATS{
				URL: s.NATSURL, Creds: s.NATSCreds, NKey: s.NATSNKey, CAFile: s.NATSCA, Cert: s.NATSCert, CertsKey: s.NATSKey,
			}.Options()

			return errors.Join(append(faults, err)...)
		},
		embed: func(e embedding) []embedded.Engine {
			if e.ports {
				return []embedded.Engine{embedded.EventsConfig{Listen: embedded.Listen{Addr: "127.0.0.1:0"}}}
			}

			return []embedded.Engine{embedded.EventsConfig{}}
		},
		adopt: func(s *settings, engines *embedded.Engines) { s.natsInside = embedded.Of[*embedded.Events](engines) },
		reach: func(engines *embedded.Engines, _ embedding) map[string]string {
			server := embedded.Of[*embedded.Events](engines)
			if server == nil {
				return nil
			}

			return map[string]string{"nats_url": server.URL()}
		},
		open: openNATS,
		check: func(ctx context.Context, b *backend) (string, error) {
			if !b.nats.IsConnected() {
				return "", errors.New("not connected")
			}

			return "connected to " + b.nats.ConnectedServerName(), b.nats.FlushWithContext(ctx)
		},
		probe: func(ctx context.Context, s *settings) []doctor.Check {
			return []doctor.Check{doctor.CheckOf("NATS", external.ProbeNATS(ctx, s.NATSURL, s.natsOptions))}
		},
	}
}

func (s *natsSettings) checkReplicas() error {
	switch {
	case s.NATSReplicas != 1 && s.NATSReplicas != 3 && s.NATSReplicas != 5:
		return errors.New("NATS_REPLICAS must be 1, 3 or 5")
	case s.NATSReplicas > 1 && s.NATSURL == "":
		return errors.New("NATS_REPLICAS above 1 needs NATS_URL, of a cluster: the embedded server is one")
	}

	return nil
}

// connectNATS connects to the server, and again whenever the connection was lost. One
// that is in this process is reached within it.
func (s *natsSettings) connectNATS() (*nats.Conn, error) {
	if s.natsInside != nil {
		return s.natsInside.Connect(events.ConnectOptions()...)
	}

	return nats.Connect(s.NATSURL, append(s.natsOptions, events.ConnectOptions()...)...)
}

func openNATS(ctx context.Context, b *backend) (err error) {
	if b.nats, err = b.settings.connectNATS(); err != nil {
		return fmt.Errorf("reach NATS: %w", err)
	}

	b.closers = append(b.closers, b.nats.Close)

	mark, err := b.db.HighWater(ctx)
	if err != nil {
		return err
	}

	b.log, err = events.Open(ctx, b.nats, events.Config{
		HighWater: mark, Blobs: b.objects, MaxBytes: b.settings.EventLogBytes, Replicas: b.settings.NATSReplicas, Logger: b.logger,
	})
	if err != nil {
		return fmt.Errorf("open the event log: %w", err)
	}

	if b.signals, err = events.OpenSignals(ctx, b.nats); err != nil {
		return fmt.Errorf("open signals: %w", err)
	}

	b.closers = append(b.closers, b.signals.Close)

	return nil
}

// absolutePaths makes the paths of files absolute, as the object store changes the
// directory of the process. An empty one stays empty: it is as good as none.
func absolutePaths(files map[string]*string) error {
	var faults []error

	for variable, path := range files {
		if *path == "" {
			continue
		}

		whole, err := filepath.Abs(*path)
		if err != nil {
			faults = append(faults, fmt.Errorf("%s: %w", variable, err))
			continue
		}

		*path = whole
	}

	return errors.Join(faults...)
}
