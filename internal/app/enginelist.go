package app

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"

	"everloop/infra/embedded"
	"everloop/terminal/doctor"
)

// engine is a server that Everloop stands on, inside this process tree or operated
// elsewhere. Its file has all that this package knows of it; the list below is the one
// place that names them all, and everything that concerns each of them iterates it.
type engine struct {
	name     string // in readiness, diagnostics, metrics and `everloop engines --only`
	label    string // at start, and in the report of `everloop doctor`
	title    string // in diagnostics
	variable string // of its address; the engine is embedded when it is unset
	hint     string // how to fix it when the check fails

	// address is the value of the variable. It is shown to operators unless it is secret.
	address func(s *settings) string
	secret  bool
	// listens are the variables of the addresses where the embedded engine listens.
	listens []string

	// options finds the faults of the engine's settings, and keeps the options of clients
	// of an external one.
	options func(s *settings) error
	// embed says how the engine is started inside this process tree.
	embed func(e embedding) []embedded.Engine
	// adopt points the settings at the embedded engine, if it was started.
	adopt func(s *settings, engines *embedded.Engines)
	// reach is what engines.json says of the embedded engine; nil when it was not started.
	reach func(engines *embedded.Engines, e embedding) map[string]string

	// open connects this process to the engine. Those before it in the list are open.
	open func(ctx context.Context, b *backend) error
	// check asks the engine whether it answers, over the connection of this process.
	check func(ctx context.Context, b *backend) (message string, err error)
	// probe tries the external engine as a start would and changes nothing.
	probe func(ctx context.Context, s *settings) []doctor.Check
	// needs checks what the embedded engine needs of this machine; nil: nothing special.
	needs func(ctx context.Context, dataDir string, e embedding) []doctor.Check
}

// engineList lists the engines, in the order in which a process connects to them.
func engineList() []engine {
	return []engine{postgresEngine(), objectsEngine(), natsEngine(), temporalEngine()}
}

// engineSettings are the flags and variables of the engines.
type engineSettings struct {
	postgresSettings `embed:""`
	objectsSettings  `embed:""`
	natsSettings     `embed:""`
	temporalSettings `embed:""`
}

// engineClients are the connections of this process to the engines.
type engineClients struct {
	postgresClients
	objectsClients
	natsClients
	temporalClients
}

// embedding says how engines run inside this process tree.
type embedding struct {
	// ports: other processes of this machine reach the engines too.
	ports          bool
	postgresBinDir string
	temporal       embedded.TemporalConfig
	temporalUI     *embedded.TemporalUIConfig // nil: it is not served
}

// checkEngines finds the faults of the engines' settings, and keeps the options of
// clients of external ones.
func (s *settings) checkEngines() error {
	var faults []error
	for _, e := range engineList() {
		faults = append(faults, e.options(s))
	}

	return errors.Join(faults...)
}

// embeds lists the engines that no setting points elsewhere.
func (s *settings) embeds() []engine {
	var inside []engine

	for _, e := range engineList() {
		if e.address(s) == "" {
			inside = append(inside, e)
		}
	}

	return inside
}

// where says, for the end of a start, where the engine is.
func (e engine) where(s *settings, inside bool) string {
	switch shown := e.address(s); {
	case inside && e.secret:
		return "embedded"
	case inside:
		return cmp.Or(shown, "embedded") + "   embedded"
	case e.secret:
		return "external, by " + e.variable
	default:
		return shown + "   external"
	}
}

// engineCheckTime bounds the check of one engine. It is shorter than the five seconds
// that a readiness request has, so that an engine that hangs is reported as that one.
const engineCheckTime = 4 * time.Second

// run checks the engine within its time.
func (e engine) run(ctx context.Context, b *backend) (message string, err error) {
	ctx, cancel := context.WithTimeout(ctx, engineCheckTime)
	defer cancel()

	return e.check(ctx, b)
}

// ready checks every dependency, by name. The engines are checked side by side: one
// that hangs takes no time from the others.
func (b *backend) ready(ctx context.Context) map[string]error {
	list := engineList()
	faults := make([]error, len(list))

	var all sync.WaitGroup
	for i, e := range list {
		all.Go(func() { _, faults[i] = e.run(ctx, b) })
	}

	all.Wait()

	checks := map[string]error{"disk": b.checkSpace()}
	for i, e := range list {
		checks[e.name] = faults[i]
	}

	return checks
}

// diagnose is the check of `everloop doctor`: the external engine is probed, and what
// the embedded one needs is looked for.
func (e engine) diagnose(ctx context.Context, s *settings, dataDir string, how embedding) []doctor.Check {
	switch {
	case e.address(s) != "":
		return e.probe(ctx, s)
	case e.needs != nil:
		return e.needs(ctx, dataDir, how)
	default:
		return []doctor.Check{{Name: e.label, State: doctor.OK, Detail: "embedded"}}
	}
}
