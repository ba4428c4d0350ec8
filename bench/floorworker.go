package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	sdk "go.temporal.io/sdk/client"
	sdklog "go.temporal.io/sdk/log"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"everloop/bench/result"
	"everloop/bench/target"
)

// floorEnv makes this program the floor of a step: an agent loop written by hand
// with the Temporal SDK alone. It names the Temporal server; floorKeyEnv holds a key
// for it, and floorModelEnv names the model server.
const (
	floorEnv      = "EVERLOOP_BENCH_FLOOR"
	floorKeyEnv   = "EVERLOOP_BENCH_FLOOR_KEY"
	floorModelEnv = "EVERLOOP_BENCH_FLOOR_MODEL"
)

const floorQueue = "floor"

// floorOrder asks the floor for loops at once; it is one line of its input.
type floorOrder struct {
	Sessions int `json:"sessions"`
	Steps    int `json:"steps"`
}

// floorDone answers an order; it is one line of its output.
type floorDone struct {
	TookMS   []float64     `json:"took_ms"` // of each loop that completed
	Wall     time.Duration `json:"wall_ns"`
	Failures []string      `json:"failures"`
}

// floorLoop is the least durable agent loop: the model call is an activity with the
// transcript as its input, the command a local activity.
func floorLoop(ctx workflow.Context, message string) error {
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{StartToCloseTimeout: time.Minute})
	ctx = workflow.WithLocalActivityOptions(ctx, workflow.LocalActivityOptions{StartToCloseTimeout: time.Minute})
	messages := []bareMessage{{Role: "user", Content: message}}

	for {
		var answer bareMessage
		if err := workflow.ExecuteActivity(ctx, "model", messages).Get(ctx, &answer); err != nil {
			return err
		}

		messages = append(messages, answer)
		if len(answer.ToolCalls) == 0 {
			return nil
		}

		for _, call := range answer.ToolCalls {
			var result string
			if err := workflow.ExecuteLocalActivity(ctx, "tool", call).Get(ctx, &result); err != nil {
				return err
			}

			messages = append(messages, bareMessage{Role: "tool", ToolCallID: call.ID, Content: result})
		}
	}
}

// serveFloor runs the floor's worker and its loops, as the lines of standard input
// ask for them, until that ends.
func serveFloor(address string) error {
	dir, err := os.MkdirTemp("", "everloop-floor-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)

	quiet := sdklog.NewStructuredLogger(slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError})))

	c, err := sdk.Dial(sdk.Options{
		HostPort: address, Namespace: "everloop", Logger: quiet,
		Credentials: sdk.NewAPIKeyStaticCredentials(os.Getenv(floorKeyEnv)), ConnectionOptions: sdk.ConnectionOptions{TLSDisabled: true},
	})
	if err != nil {
		return err
	}
	defer c.Close()

	loop := newBare(os.Getenv(floorModelEnv), dir)
	poll := worker.NewPollerBehaviorAutoscaling(
		worker.PollerBehaviorAutoscalingOptions{InitialNumberOfPollers: 4, MaximumNumberOfPollers: 32},
	)
	w := worker.New(c, floorQueue, worker.Options{WorkflowTaskPollerBehavior: poll, ActivityTaskPollerBehavior: poll})
	w.RegisterWorkflowWithOptions(floorLoop, workflow.RegisterOptions{Name: "FloorLoop"})
	registerFloor(w, loop)

	if err := w.Start(); err != nil {
		return err
	}
	defer w.Stop()

	out := json.NewEncoder(os.Stdout)

	orders := bufio.NewScanner(os.Stdin)
	for orders.Scan() {
		var order floorOrder
		if err := json.Unmarshal(orders.Bytes(), &order); err != nil {
			return err
		}

		if err := out.Encode(runFloor(c, order)); err != nil {
			return err
		}
	}

	return orders.Err()
}

func runFloor(c sdk.Client, order floorOrder) floorDone {
	var (
		done  floorDone
		mu    sync.Mutex
		group sync.WaitGroup
	)

	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()

	began := time.Now()

	for i := range order.Sessions {
		group.Go(func() {
			sent := time.Now()

			run, err := c.ExecuteWorkflow(ctx, sdk.StartWorkflowOptions{
				ID: fmt.Sprintf("floor/%d/%d", began.UnixNano(), i), TaskQueue: floorQueue, EnableEagerStart: true,
			}, "FloorLoop", target.LoopScript(order.Steps))
			if err == nil {
				err = run.Get(ctx, nil)
			}

			mu.Lock()
			defer mu.Unlock()

			if err != nil {
				done.Failures = append(done.Failures, err.Error())
				return
			}

			done.TookMS = append(done.TookMS, result.Milliseconds(time.Since(sent)))
		})
	}

	group.Wait()

	done.Wall = time.Since(began)

	return done
}
