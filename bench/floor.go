package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/worker"

	"everloop/bench/proc"
	"everloop/bench/result"
	"everloop/bench/target"
)

const (
	floorRounds   = 3
	floorCPUGoal  = 1.5 // times the floor's CPU of a step
	floorRateGoal = 0.7 // times the floor's steps a second
	floorGapGoal  = 1.3 // times the floor's gap of a step
)

// measureFloor compares a step with the floor of the engine: the same loop written
// by hand with the Temporal SDK, on the same server, in turns in one run.
func measureFloor(ctx context.Context, b *bench) error {
	floor, err := startFloor(b)
	if err != nil {
		return err
	}
	defer floor.stop()

	if _, err := floor.run(floorOrder{Sessions: 5, Steps: 3}); err != nil {
		return fmt.Errorf("warm the floor up: %w", err)
	}

	b.model.Take()

	var ours, bare floorSamples
	for range floorRounds {
		if err := b.roundOfOurs(ctx, &ours); err != nil {
			return err
		}

		if err := b.roundOfFloor(floor, &bare); err != nil {
			return err
		}
	}

	ours.report(b, "Everloop")
	bare.report(b, "floor")
	b.compareAt("CPU of a step, sandbox apart, with many sessions", "ms", ours.cpu, bare.cpu, result.AtMost(floorCPUGoal))
	b.compareAt("steps per second, with many sessions", "steps/s", ours.rate, bare.rate, result.AtLeast(floorRateGoal))
	b.compareAt("gap: answer's end to the next request, one session", "ms", ours.gap, bare.gap, result.AtMost(floorGapGoal))

	return nil
}

// compareAt adds two medians and holds their ratio to a goal.
func (b *bench) compareAt(measure, unit string, ours, floor result.Sample, goal *result.Goal) {
	b.samples(measure, unit, ours, floor, nil)
	b.value("  ratio to the floor", "", ours.Median()/floor.Median(), goal)
}

// floorSamples are what the rounds of one of the two took.
type floorSamples struct{ cpu, service, records, worker, rate, gap result.Sample }

func (s *floorSamples) add(used proc.Usage, worker time.Duration, steps int, wall time.Duration) {
	per := func(d time.Duration) float64 { return result.Milliseconds(d) / float64(steps) }
	s.service = append(s.service, per(used.Tree.Service))
	s.records = append(s.records, per(used.Tree.Records))
	s.worker = append(s.worker, per(worker))
	s.cpu = append(s.cpu, per(used.Tree.Service+used.Tree.Records+worker))
	s.rate = append(s.rate, float64(steps)/wall.Seconds())
}

func (s *floorSamples) report(b *bench, who string) {
	b.samples(who+": CPU of a step in the service", "ms", s.service, nil, nil)
	b.samples(who+": CPU of a step in PostgreSQL", "ms", s.records, nil, nil)

	if s.worker.Median() > 0 {
		b.samples(who+": CPU of a step in its worker", "ms", s.worker, nil, nil)
	}
}

func (b *bench) roundOfOurs(ctx context.Context, into *floorSamples) error {
	sessions := make([]string, b.sessions)
	for i := range sessions {
		var err error
		if sessions[i], err = b.client.CreateSession(ctx); err != nil {
			return err
		}
	}

	meter := proc.StartMeter(b.server.Cmd.Process.Pid)

	many := maxConcurrent(b.sessions, func(i int) (*target.Chat, error) {
		return b.client.Completed(ctx, sessions[i], target.LoopScript(manySteps))
	})
	if len(many.failures) > 0 {
		return fmt.Errorf("%d sessions failed; the first: %w", len(many.failures), many.failures[0])
	}

	into.add(meter.Read(), 0, b.sessions*manySteps, many.wall)
	b.model.Take()

	if _, err := b.chatInNew(ctx, target.LoopScript(stepLoop)); err != nil {
		return err
	}

	calls, err := b.stepCalls()
	addGaps(&into.gap, calls)

	return err
}

func (b *bench) roundOfFloor(floor *floorProcess, into *floorSamples) error {
	meter := proc.StartMeter(b.server.Cmd.Process.Pid)
	worker := proc.TreeCPU(floor.cmd.Process.Pid).Service

	done, err := floor.run(floorOrder{Sessions: b.sessions, Steps: manySteps})
	if err != nil {
		return err
	}

	into.add(meter.Read(), proc.TreeCPU(floor.cmd.Process.Pid).Service-worker, b.sessions*manySteps, done.Wall)
	b.model.Take()

	if _, err := floor.run(floorOrder{Sessions: 1, Steps: stepLoop}); err != nil {
		return err
	}

	calls, err := b.stepCalls()
	addGaps(&into.gap, calls)

	return err
}

// registerFloor binds the floor's two activities.
func registerFloor(w worker.Registry, loop *bare) {
	ask := func(ctx context.Context, messages []bareMessage) (bareMessage, error) {
		c := &conversation{bare: loop, messages: messages}
		return c.ask(ctx, func(string) {})
	}
	tool := func(ctx context.Context, call bareCall) (string, error) {
		c := &conversation{bare: loop}
		return c.runTool(ctx, call)
	}

	w.RegisterActivityWithOptions(ask, activity.RegisterOptions{Name: "model"})
	w.RegisterActivityWithOptions(tool, activity.RegisterOptions{Name: "tool"})
}

// floorProcess is this program as the floor, in a process of its own so that its
// CPU time can be separated from the model's and the clients'.
type floorProcess struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

func startFloor(b *bench) (*floorProcess, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}

	f := &floorProcess{cmd: exec.Command(self)}

	f.cmd.Env = append(
		os.Environ(),
		floorEnv+"="+b.server.Addr["TEMPORAL_ADDR"],
		floorKeyEnv+"="+b.server.Key,
		floorModelEnv+"="+b.model.URL,
	)
	f.cmd.Stderr = os.Stderr

	f.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	if f.in, err = f.cmd.StdinPipe(); err != nil {
		return nil, err
	}

	stdout, err := f.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}

	f.out = bufio.NewReader(stdout)

	return f, f.cmd.Start()
}

func (f *floorProcess) run(order floorOrder) (done floorDone, err error) {
	if err := json.NewEncoder(f.in).Encode(order); err != nil {
		return done, err
	}

	line, err := f.out.ReadBytes('\n')
	if err != nil {
		return done, fmt.Errorf("the floor ended: %w", err)
	}

	if err := json.Unmarshal(line, &done); err != nil {
		return done, err
	}

	if len(done.Failures) > 0 {
		return done, fmt.Errorf("%d loops of the floor failed; the first: %s", len(done.Failures), done.Failures[0])
	}

	return done, nil
}

func (f *floorProcess) stop() {
	_ = f.in.Close() // its input ends, and it with that
	_ = f.cmd.Wait()
}
