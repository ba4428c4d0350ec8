package embedded

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
)

// maxEventPayload is the maximum size of a message, in bytes. Events above 256 KiB are stored
// elsewhere and referenced, so this is a safety margin.
const maxEventPayload = 8 << 20

// eventsSyncInterval is the interval of JetStream's fsync. A killed process loses nothing. A
// power failure loses the events of this interval, whose state is in PostgreSQL; the event log
// starts a new generation after each restart, and the rows of the outbox, which are deleted more
// than two intervals after publication, are published again.
const eventsSyncInterval = time.Second

// EventsConfig configures the NATS server.
type EventsConfig struct {
	// Listen opens a loopback port, protected by a token, for other processes of this machine.
	// With an empty Addr only this process can connect.
	Listen Listen
}

func (c EventsConfig) name() string    { return "nats" }
func (c EventsConfig) title() string   { return "NATS" }
func (c EventsConfig) after() []string { return nil }

func (c EventsConfig) listens() []Listen {
	if c.Listen.Addr == "" {
		return nil
	}

	return []Listen{c.Listen}
}

func (c EventsConfig) start(_ context.Context, dir string, _ *Engines, logger *slog.Logger) (Running, error) {
	return StartEvents(filepath.Join(dir, "events"), c, logger)
}

// Events is a NATS server with JetStream on files, in this process.
type Events struct {
	server *server.Server
	token  string
	url    string
}

// StartEvents starts the server in dir and returns when it accepts connections.
func StartEvents(dir string, cfg EventsConfig, logger *slog.Logger) (*Events, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}

	token, err := loadSecret(filepath.Join(dir, "token"))
	if err != nil {
		return nil, err
	}

	options := &server.Options{
		ServerName:             "everloop",
		DontListen:             true,
		Authorization:          token,
		JetStream:              true,
		StoreDir:               dir,
		SyncInterval:           eventsSyncInterval,
		JetStreamMaxMemory:     64 << 20,
		MaxPayload:             maxEventPayload,
		MaxPending:             64 << 20,
		NoSigs:                 true, // the process handles signals
		DisableJetStreamBanner: true,
	}
	if cfg.Listen.Addr != "" {
		if err := listenEvents(options, cfg.Listen); err != nil {
			return nil, err
		}
	}

	srv, err := server.NewServer(options)
	if err != nil {
		return nil, err
	}

	srv.SetLoggerV2(natsLogger{logger.With("engine", "events")}, false, false, false)
	srv.Start()

	if !srv.ReadyForConnections(30 * time.Second) {
		srv.Shutdown()
		return nil, errors.New("the NATS server was not ready within 30 s")
	}

	if !srv.JetStreamEnabled() {
		srv.Shutdown()
		return nil, fmt.Errorf("JetStream cannot use %s; the log says why", dir)
	}

	e := &Events{server: srv, token: token}
	if !options.DontListen {
		e.url = fmt.Sprintf("nats://%s@%s", token, joinHostPort(options.Host, options.Port))
	}

	return e, nil
}

// listenEvents opens the port. The protocol is not encrypted: loopback only.
func listenEvents(options *server.Options, listen Listen) error {
	ip, port, err := listen.split()
	if err != nil {
		return err
	}

	if !ip.IsLoopback() {
		return fmt.Errorf(
			"%s: the embedded event server listens on this machine only, not on %s: run a NATS server and set NATS_URL",
			listen.Variable,
			listen.Addr,
		)
	}

	if port == 0 {
		if port, err = freePort(); err != nil {
			return err
		}
	}

	options.DontListen, options.Host, options.Port = false, ip.String(), port

	return nil
}

// Connect opens a connection within this process, without a port.
func (e *Events) Connect(options ...nats.Option) (*nats.Conn, error) {
	options = append([]nats.Option{nats.InProcessServer(e.server), nats.Token(e.token)}, options...)
	return nats.Connect("", options...)
}

// URL returns the URL for other processes of this machine, including the token. It is empty when
// the server does not listen.
func (e *Events) URL() string { return e.url }

// Done returns nil: the server does not end unexpectedly.
func (e *Events) Done() <-chan struct{} { return nil }

// Err returns nil: see Done.
func (e *Events) Err() error { return nil }

// Stop flushes the streams and stops the server.
func (e *Events) Stop(context.Context) error {
	e.server.Shutdown()
	e.server.WaitForShutdown()

	return nil
}

// natsLogger passes the server's warnings and errors to slog.
type natsLogger struct{ to *slog.Logger }

func (natsLogger) Noticef(string, ...any) {}
func (natsLogger) Debugf(string, ...any)  {}
func (natsLogger) Tracef(string, ...any)  {}

func (l natsLogger) Warnf(format string, v ...any)  { l.to.Warn(fmt.Sprintf(format, v...)) }
func (l natsLogger) Errorf(format string, v ...any) { l.to.Error(fmt.Sprintf(format, v...)) }
func (l natsLogger) Fatalf(format string, v ...any) { l.to.Error(fmt.Sprintf(format, v...)) }
