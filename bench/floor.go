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

	b.model.take()

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
	b.compareAt("CPU of a step, sandbox apart, with many sessions", "ms", ours.cpu, bare.cpu, atMost(floorCPUGoal))
	b.compareAt("steps per second, with many sessions", "steps/s", ours.rate, bare.rate, atLeast(floorRateGoal))
	b.compareAt("gap: answer's end to the next request, one session", "ms", ours.gap, bare.gap, atMost(floorGapGoal))

	return nil
}

// compareAt adds two medians and holds their ratio to a goal.
func (b *bench) compareAt(measure, unit string, ours, floor sample, goal *goal) {
	b.samples(measure, unit, ours, floor, nil)
	b.value("  ratio to the floor", "", ours.median()/floor.median(), goal)
}

// floorSamples are what the rounds of one of the two took.
type floorSamples struct{ cpu, service, records, worker, rate, gap sample }

func (s *floorSamples) add(used usage, worker time.Duration, steps int, wall time.Duration) {
	per := func(d time.Duration) float64 { return ms(d) / float64(steps) }
	s.service = append(s.service, per(used.tree.service))
	s.records = append(s.records, per(used.tree.records))
	s.worker = append(s.worker, per(worker))
	s.cpu = append(s.cpu, per(used.tree.service+used.tree.records+worker))
	s.rate = append(s.rate, float64(steps)/wall.Seconds())
}

func (s *floorSamples) report(b *bench, who string) {
	b.samples(who+": CPU of a step in the service", "ms", s.service, nil, nil)
	b.samples(who+": CPU of a step in PostgreSQL", "ms", s.records, nil, nil)

	if s.worker.median() > 0 {
		b.samples(who+": CPU of a step in its worker", "ms", s.worker, nil, nil)
	}
}

func (b *bench) roundOfOurs(ctx context.Context, into *floorSamples) error {
	sessions := make([]string, b.sessions)
	for i := range sessions {
		var err error
		if sessions[i], err = b.client.createSession(ctx); err != nil {
			return err
		}
	}

	meter := startMeter(b.server.cmd.Process.Pid)

	many := atOnce(b.sessions, func(i int) (*chat, error) { return b.client.completed(ctx, sessions[i], loopScript(manySteps)) })
	if len(many.failures) > 0 {
		return fmt.Errorf("%d sessions failed; the first: %w", len(many.failures), many.failures[0])
	}

	into.add(meter.read(), 0, b.sessions*manySteps, many.wall)
	b.model.take()

	if _, err := b.chatInNew(ctx, loopScript(stepLoop)); err != nil {
		return err
	}

	calls, err := b.stepCalls()
	into.gap.gaps(calls)

	return err
}

func (b *bench) roundOfFloor(floor *floorProcess, into *floorSamples) error {
	meter := startMeter(b.server.cmd.Process.Pid)
	worker := treeCPU(floor.cmd.Process.Pid).service

	done, err := floor.run(floorOrder{Sessions: b.sessions, Steps: manySteps})
	if err != nil {
		return err
	}

	into.add(meter.read(), treeCPU(floor.cmd.Process.Pid).service-worker, b.sessions*manySteps, done.Wall)
	b.model.take()

	if _, err := floor.run(floorOrder{Sessions: 1, Steps: stepLoop}); err != nil {
		return err
	}

	calls, err := b.stepCalls()
	into.gap.gaps(calls)

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
		floorEnv+"="+b.server.addr["TEMPORAL_ADDR"],
		floorKeyEnv+"="+b.server.key,
		floorModelEnv+"="+b.model.url,
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
