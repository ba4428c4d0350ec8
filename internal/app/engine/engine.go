// Package engine has the servers that Everloop stands on: PostgreSQL, the object store,
// NATS and Temporal, inside this process tree or operated elsewhere. Of each it has the
// settings, the embedded start, the connection, the check and the probe; and the roles
// that serve them alone. What the data in them means is known above.
package engine

import (
	"cmp"
	"context"
	"errors"
	"time"

	"everloop/infra/embedded"
	"everloop/internal/app/flags"
	"everloop/terminal/doctor"
)

// Engine is a server that Everloop stands on, with the settings that it was made of. Its
// file has all that this package knows of it; [Settings], [Clients] and [Settings.Engines]
// name them all, and everything that concerns each of them iterates the list.
type Engine struct {
	Name     string // in readiness, diagnostics, metrics and `everloop engines --only`
	Label    string // at start, and in the report of `everloop doctor`
	Title    string // in diagnostics
	Variable string // of its address; the engine is embedded when it is unset
	Hint     string // how to fix it when the check fails

	// Address is the value of the variable. It is shown to operators unless it is secret.
	Address func() string
	secret  bool
	// Listens are the variables of the addresses where the embedded engine listens.
	Listens []string

	// options finds the faults of the engine's settings, and keeps the options of clients
	// of an external one.
	options func(keys flags.Keys, dataDir string) error
	// Embed says how the engine is started inside this process tree.
	Embed func(how Embedding) []embedded.Engine
	// Adopt points the settings at the embedded engine, if it was started.
	Adopt func(engines *embedded.Engines)
	// reach is what engines.json says of the embedded engine; nil when it was not started.
	reach func(engines *embedded.Engines, how Embedding) map[string]string

	// open connects this process to the engine. Those before it in the list are open.
	open func(ctx context.Context, c *Clients, p Process) error
	// check asks the engine whether it answers, over the connection of this process.
	check func(ctx context.Context, c *Clients) (message string, err error)
	// probe tries the external engine as a start would and changes nothing.
	probe func(ctx context.Context) []doctor.Check
	// needs checks what the embedded engine needs of this machine; nil: nothing special.
	needs func(ctx context.Context, dataDir string, how Embedding) []doctor.Check
}

// Settings are the flags and variables of the engines.
type Settings struct {
	PostgresSettings `embed:""`
	ObjectsSettings  `embed:""`
	NATSSettings     `embed:""`
	TemporalSettings `embed:""`
}

// Clients are the connections of a process to the engines.
type Clients struct {
	postgresClients
	objectsClients
	natsClients
	temporalClients

	closers []func()
}

// Engines lists the engines, in the order in which a process connects to them.
func (s *Settings) Engines() []Engine {
	return []Engine{s.PostgresSettings.Engine(), s.ObjectsSettings.Engine(), s.NATSSettings.Engine(), s.TemporalSettings.Engine()}
}

// Embedding says how engines run inside this process tree.
type Embedding struct {
	// Ports: other processes of this machine reach the engines too.
	Ports          bool
	PostgresBinDir string
	Temporal       embedded.TemporalConfig
	TemporalUI     *embedded.TemporalUIConfig // nil: it is not served
}

// Check finds the faults of the engines' settings, and keeps the options of clients of
// external ones.
func (s *Settings) Check(keys flags.Keys, dataDir string) error {
	var faults []error
	for _, e := range s.Engines() {
		faults = append(faults, e.options(keys, dataDir))
	}

	return errors.Join(faults...)
}

// Embedded lists the engines that no setting points elsewhere.
func (s *Settings) Embedded() []Engine {
	var inside []Engine

	for _, e := range s.Engines() {
		if e.Address() == "" {
			inside = append(inside, e)
		}
	}

	return inside
}

// Where says, for the end of a start, where the engine is.
func (e Engine) Where(inside bool) string {
	switch shown := e.Address(); {
	case inside && e.secret:
		return "embedded"
	case inside:
		return cmp.Or(shown, "embedded") + "   embedded"
	case e.secret:
		return "external, by " + e.Variable
	default:
		return shown + "   external"
	}
}

// checkTime bounds the check of one engine. It is shorter than the five seconds that a
// readiness request has, so that an engine that hangs is reported as that one.
const checkTime = 4 * time.Second

// Check asks the engine whether it answers, within its time.
func (e Engine) Check(ctx context.Context, c *Clients) (message string, err error) {
	ctx, cancel := context.WithTimeout(ctx, checkTime)
	defer cancel()

	return e.check(ctx, c)
}

// Diagnose returns the check of `everloop doctor`: the external engine is probed, and what
// the embedded one needs is looked for.
func (e Engine) Diagnose(ctx context.Context, dataDir string, how Embedding) []doctor.Check {
	switch {
	case e.Address() != "":
		return e.probe(ctx)
	case e.needs != nil:
		return e.needs(ctx, dataDir, how)
	default:
		return []doctor.Check{{Name: e.Label, State: doctor.OK, Detail: "embedded"}}
	}
}

// stopTime bounds an orderly end of the engines.
const stopTime = 30 * time.Second

// stopper is what ends: the embedded engines, or one of them.
type stopper interface {
	Stop(ctx context.Context) error
}

// Stop ends embedded engines, within their time.
func Stop(engines stopper) error {
	ctx, cancel := context.WithTimeout(context.Background(), stopTime)
	defer cancel()

	return engines.Stop(ctx)
}
