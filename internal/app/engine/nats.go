package engine

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/nats-io/nats.go"

	"everloop/infra/embedded"
	"everloop/infra/events"
	"everloop/infra/external"
	"everloop/internal/app/flags"
	"everloop/terminal/doctor"
)

// NATSSettings say where the event log is and how its server admits this process.
type NATSSettings struct {
	NATSURL       string `name:"nats-url" env:"NATS_URL" help:"NATS server with JetStream; embedded when unset."`
	EventLogBytes int64  `default:"8589934592" env:"EVENT_LOG_BYTES" help:"Bytes of the event log; beyond it the oldest events go before they are 24 hours old. 0: no limit."`
	NATSReplicas  int    `name:"nats-replicas" default:"1" env:"NATS_REPLICAS" help:"NATS servers that keep each event: 1, 3 or 5. Those of an existing event log are raised and never lowered."`
	NATSCreds     string `name:"nats-creds" env:"NATS_CREDS" help:"File of credentials for NATS: JWT and seed, or the seed of an nkey."`
	NATSCA        string `name:"nats-ca-file" env:"NATS_CA_FILE" help:"CA of the NATS server's certificate, as PEM."`
	NATSCert      string `name:"nats-cert-file" env:"NATS_CERT_FILE" help:"Certificate of the client for NATS and its key, as PEM in one file."`

	natsOptions []nats.Option    // made of the files
	natsInside  *embedded.Events // nil: the server is elsewhere
}

// natsClients are this process's connection to NATS, and what is built on it.
type natsClients struct {
	NATS    *nats.Conn
	Log     *events.Log
	Signals *events.Signals
}

// Engine is NATS with these settings.
func (s *NATSSettings) Engine() Engine {
	return Engine{
		Name: "nats", Label: "NATS", Title: "Event log (NATS JetStream)", Variable: "NATS_URL", secret: true,
		Hint:    "Check that NATS runs with JetStream and that NATS_URL is right.",
		Address: func() string { return s.NATSURL },
		options: func(flags.Keys, string) (err error) {
			if s.NATSURL == "" {
				return s.checkReplicas()
			}

			faults := []error{s.checkReplicas(), absolutePaths(map[string]*string{
				"NATS_CREDS": &s.NATSCreds, "NATS_CA_FILE": &s.NATSCA, "NATS_CERT_FILE": &s.NATSCert,
			})}
			s.natsOptions, err = external.NATS{
				URL: s.NATSURL, Creds: s.NATSCreds, CAFile: s.NATSCA, Cert: s.NATSCert,
			}.Options()

			return errors.Join(append(faults, err)...)
		},
		Embed: func(how Embedding) []embedded.Engine {
			if how.Ports {
				return []embedded.Engine{embedded.EventsConfig{Listen: embedded.Listen{Addr: "127.0.0.1:0"}}}
			}

			return []embedded.Engine{embedded.EventsConfig{}}
		},
		Adopt: func(engines *embedded.Engines) { s.natsInside = embedded.Of[*embedded.Events](engines) },
		reach: func(engines *embedded.Engines, _ Embedding) map[string]string {
			server := embedded.Of[*embedded.Events](engines)
			if server == nil {
				return nil
			}

			return map[string]string{"nats_url": server.URL()}
		},
		open: s.open,
		check: func(ctx context.Context, c *Clients) (string, error) {
			if !c.NATS.IsConnected() {
				return "", errors.New("not connected")
			}

			return "connected to " + c.NATS.ConnectedServerName(), c.NATS.FlushWithContext(ctx)
		},
		probe: func(ctx context.Context) []doctor.Check {
			return []doctor.Check{doctor.CheckOf("NATS", external.ProbeNATS(ctx, s.NATSURL, s.natsOptions))}
		},
	}
}

func (s *NATSSettings) checkReplicas() error {
	switch {
	case s.NATSReplicas != 1 && s.NATSReplicas != 3 && s.NATSReplicas != 5:
		return errors.New("NATS_REPLICAS must be 1, 3 or 5")
	case s.NATSReplicas > 1 && s.NATSURL == "":
		return errors.New("NATS_REPLICAS above 1 needs NATS_URL, of a cluster: the embedded server is one")
	}

	return nil
}

// connect connects to the server, and again whenever the connection was lost. One
// that is in this process is reached within it.
func (s *NATSSettings) connect() (*nats.Conn, error) {
	if s.natsInside != nil {
		return s.natsInside.Connect(events.ConnectOptions()...)
	}

	return nats.Connect(s.NATSURL, append(s.natsOptions, events.ConnectOptions()...)...)
}

// open connects to the server, and opens the event log with the signals.
func (s *NATSSettings) open(ctx context.Context, c *Clients, p Process) (err error) {
	if c.NATS, err = s.connect(); err != nil {
		return fmt.Errorf("reach NATS: %w", err)
	}

	c.closers = append(c.closers, c.NATS.Close)

	mark, err := c.DB.HighWater(ctx)
	if err != nil {
		return err
	}

	c.Log, err = events.Open(ctx, c.NATS, events.Config{
		HighWater: mark, Blobs: c.Objects, MaxBytes: s.EventLogBytes, Replicas: s.NATSReplicas, Logger: p.Logger,
	})
	if err != nil {
		return fmt.Errorf("open the event log: %w", err)
	}

	if c.Signals, err = events.OpenSignals(ctx, c.NATS); err != nil {
		return fmt.Errorf("open signals: %w", err)
	}

	c.closers = append(c.closers, c.Signals.Close)

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
