package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"go.temporal.io/api/serviceerror"

	"everloop/domain"
	"everloop/infra/temporal"
	"everloop/internal/app/engine"
	"everloop/internal/app/flags"
)

// Deploy shows and changes which build of the workers gets which runs.
type Deploy struct {
	TemporalAddress   string `default:"127.0.0.1:7233" env:"TEMPORAL_ADDRESS" help:"host:port of the Temporal server."`
	TemporalNamespace string `default:"everloop" env:"TEMPORAL_NAMESPACE" help:"Temporal namespace."`
	DataDir           string `default:"./data" env:"DATA_DIR" type:"path" help:"Data directory; the key for Temporal is there unless KEY_DIR is set."`
	flags.Keys        `embed:""`

	Status  deployStatusCmd  `cmd:"" default:"withargs" help:"List the builds with their workers, and say which may be stopped."`
	Promote deployPromoteCmd `cmd:"" help:"Give new chats to a build."`
	Ramp    deployRampCmd    `cmd:"" help:"Give a share of new chats to a build."`
	Move    deployMoveCmd    `cmd:"" help:"Move all chats of a build to the current one."`
}

// deployTime bounds one command, which tries again after a pause while the server asks
// for that or does not answer in time.
const (
	deployTime  = 2 * time.Minute
	deployPause = 500 * time.Millisecond
)

// with runs work with the worker deployment that the flags name.
func (c *Deploy) with(ctx context.Context, work func(ctx context.Context, d temporal.Deployment) error) error {
	ctx, cancel := context.WithTimeout(ctx, deployTime)
	defer cancel()

	options, err := engine.TemporalOptions(c.Keys, c.DataDir)
	if err := errors.Join(flags.CheckAddress("TEMPORAL_ADDRESS", c.TemporalAddress), err); err != nil {
		return err
	}

	options.HostPort, options.Namespace = c.TemporalAddress, c.TemporalNamespace

	reached, err := temporal.Dial(ctx, options, slog.Default())
	if err != nil {
		return err
	}
	defer reached.Close()

	d := temporal.Deployment{Client: reached, Namespace: c.TemporalNamespace}

	refusal, err := d.Refusal(ctx)
	if refusal != nil {
		err = fmt.Errorf("the Temporal server has no worker deployments: %w", refusal)
	}

	if err != nil {
		return err
	}

	for {
		err := work(ctx, d)
		if !passes(err) {
			return err
		}

		select { // the server is about to start what keeps the deployment, or is slow
		case <-ctx.Done():
			return err
		case <-time.After(deployPause):
		}
	}
}

// passes reports whether a server that has more time may answer otherwise. The commands
// set a state, so that trying again does no harm.
func passes(err error) bool {
	_, busy := errors.AsType[*serviceerror.ResourceExhausted](err)
	_, slow := errors.AsType[*serviceerror.DeadlineExceeded](err)

	return busy || slow || errors.Is(err, context.DeadlineExceeded) || joining(err)
}

// joining reports whether a build was refused because its workers do not ask for work
// of every kind: those that have just started do so in a moment. The server has no code
// of its own for that.
func joining(err error) bool {
	refused, ok := errors.AsType[*serviceerror.FailedPrecondition](err)
	return ok && strings.Contains(refused.Message, "is missing active task queues")
}

// deployStatusCmd lists the builds.
type deployStatusCmd struct {
	JSON bool `name:"json" help:"Write the list as JSON."`
}

// Run implements the command.
func (c *deployStatusCmd) Run(ctx context.Context, parent *Deploy) error {
	return parent.with(ctx, func(ctx context.Context, d temporal.Deployment) error {
		deployment, err := d.Look(ctx)
		if err != nil {
			return err
		}

		pinned := map[string]int64{}

		for _, v := range deployment.Versions {
			if v.BuildID == "" {
				continue
			}

			if pinned[v.BuildID], err = d.CountPinned(ctx, v.BuildID); err != nil {
				return err
			}
		}

		if c.JSON {
			return json.NewEncoder(os.Stdout).Encode(deployStatus{WorkerDeployment: deployment, Pinned: pinned})
		}

		return writeDeployment(os.Stdout, deployment, pinned)
	})
}

// deployStatus is the list as JSON.
type deployStatus struct {
	domain.WorkerDeployment
	Pinned map[string]int64 `json:"pinned_runs"` // open runs that only workers of a build carry on
}

func writeDeployment(w io.Writer, d domain.WorkerDeployment, pinned map[string]int64) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "BUILD\tSTATUS\tWORKERS\tPINNED RUNS\t")

	for _, v := range d.Versions {
		name, status := v.BuildID, string(v.Status)
		if name == "" {
			name = "(unversioned)"
		}

		switch v.Status {
		case domain.VersionDrained:
			status = "drained: may be stopped"
		case domain.VersionRamping:
			status = fmt.Sprintf("ramping, %g %%", d.RampPercent)
		case domain.VersionCurrent, domain.VersionInactive, domain.VersionDraining:
		}

		fmt.Fprintf(table, "%s\t%s\t%d\t%d\t\n", name, status, v.Workers, pinned[v.BuildID])
	}

	if len(d.Versions) == 0 {
		fmt.Fprintln(table, "(no worker has asked for work yet)\t\t\t\t")
	}

	return table.Flush()
}

// deployPromoteCmd makes a build the current one.
type deployPromoteCmd struct {
	BuildID string `arg:"" optional:"" help:"The build; that of this program when unset. 'unversioned': workers without a build."`
}

// Run implements the command.
func (c *deployPromoteCmd) Run(ctx context.Context, parent *Deploy) error {
	named := versionSettings{BuildID: c.BuildID}
	if err := named.complete(); err != nil {
		return err
	}

	build := named.BuildID
	if build == "unversioned" {
		build = ""
	}

	return parent.with(ctx, func(ctx context.Context, d temporal.Deployment) error {
		if err := d.Promote(ctx, build); err != nil {
			return err
		}

		fmt.Println("current:", named.BuildID) //nolint:forbidigo // the output of the command

		return nil
	})
}

// deployRampCmd gives a share of new runs to a build.
type deployRampCmd struct {
	BuildID string  `arg:"" help:"The build."`
	Percent float32 `required:"" help:"The share, from 0 to 100; 0 takes it back."`
}

// Run implements the command.
func (c *deployRampCmd) Run(ctx context.Context, parent *Deploy) error {
	if c.Percent < 0 || c.Percent > 100 {
		return errors.New("--percent must be from 0 to 100")
	}

	return parent.with(ctx, func(ctx context.Context, d temporal.Deployment) error {
		if err := d.Ramp(ctx, c.BuildID, c.Percent); err != nil {
			return err
		}

		fmt.Printf("ramping: %s, %g %%\n", c.BuildID, c.Percent) //nolint:forbidigo // the output of the command

		return nil
	})
}

// deployMoveCmd lets runs of a build continue with the current one.
type deployMoveCmd struct {
	BuildID string `arg:"" help:"The build whose runs are moved."`
}

// Run implements the command.
func (c *deployMoveCmd) Run(ctx context.Context, parent *Deploy) error {
	return parent.with(ctx, func(ctx context.Context, d temporal.Deployment) error {
		deployment, err := d.Look(ctx)
		if err != nil {
			return err
		}

		if c.BuildID == deployment.Current {
			return fmt.Errorf("%s is the current build: promote another one first", c.BuildID)
		}

		moved, err := d.MoveRuns(ctx, c.BuildID, false)
		if err != nil {
			return err
		}

		fmt.Println("runs moved:", moved) //nolint:forbidigo // the output of the command

		return nil
	})
}
