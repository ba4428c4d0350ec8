package durable_test

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"everloop/internal/durable"
)

// What goes into an activity and comes out of it. Ids and small facts only: content
// stays in the database.
type (
	greetIn  struct{ Name string }
	greetOut struct{ Text string }
)

// greet is declared once, in a contract: with its name, its types and the preset that it
// runs under.
var greet = durable.Activity[greetIn, greetOut]{Name: "example.greet", Preset: durable.Store}

// approve is a signal without content.
var approve = durable.Signal[struct{}]{Name: "approve"}

// newEnvironment stands for a worker and a server.
func newEnvironment() *testsuite.TestWorkflowEnvironment {
	var suite testsuite.WorkflowTestSuite
	suite.SetLogger(log.NewStructuredLogger(slog.New(slog.DiscardHandler)))

	return suite.NewTestWorkflowEnvironment().
		SetTestTimeout(5 * time.Minute). // of real time, as is the next one: a busy machine takes its time
		SetWorkerOptions(worker.Options{DeadlockDetectionTimeout: 5 * time.Minute})
}

// An activity is called by a workflow and handled by a worker. The compiler holds both to
// the same types.
func ExampleActivity() {
	greetTwice := func(ctx workflow.Context) (string, error) {
		// As an activity: what operators read next to it is the summary.
		first, err := greet.Run(ctx, greetIn{Name: "Ann"}, "Greet Ann")
		if err != nil {
			return "", err
		}
		// As a local activity, without a round trip to the server: for a short step of
		// the database.
		second, err := greet.Local(ctx, greetIn{Name: "Bob"})

		return first.Text + " " + second.Text, err
	}

	env := newEnvironment()
	greet.Handle(env, func(_ context.Context, in greetIn) (greetOut, error) {
		return greetOut{Text: "Hello, " + in.Name + "."}, nil
	})
	env.ExecuteWorkflow(greetTwice)

	var text string
	fmt.Println(env.GetWorkflowResult(&text), text)
	// Output: <nil> Hello, Ann. Hello, Bob.
}

// Start returns a future, so that activities run side by side.
func ExampleActivity_Start() {
	greetBoth := func(ctx workflow.Context) (string, error) {
		ann := greet.Start(ctx, greetIn{Name: "Ann"}, "Greet Ann")
		bob := greet.Start(ctx, greetIn{Name: "Bob"}, "Greet Bob")

		first, err := ann.Get(ctx)
		if err != nil {
			return "", err
		}

		second, err := bob.Get(ctx)

		return first.Text + " " + second.Text, err
	}

	env := newEnvironment()
	greet.Handle(env, func(_ context.Context, in greetIn) (greetOut, error) {
		return greetOut{Text: "Hello, " + in.Name + "."}, nil
	})
	env.ExecuteWorkflow(greetBoth)

	var text string
	fmt.Println(env.GetWorkflowResult(&text), text)
	// Output: <nil> Hello, Ann. Hello, Bob.
}

// Final fails an activity permanently: it is not retried, and its workflow finds the code.
func ExampleFinal() {
	greetNameless := func(ctx workflow.Context) (string, error) {
		_, err := greet.Run(ctx, greetIn{}, "Greet without a name")
		return durable.Code(err) + ": " + durable.Message(err), nil
	}

	env := newEnvironment()
	greet.Handle(env, func(context.Context, greetIn) (greetOut, error) {
		return greetOut{}, durable.Final("name_missing", "there is no name to greet")
	})
	env.ExecuteWorkflow(greetNameless)

	var text string
	fmt.Println(env.GetWorkflowResult(&text), text)
	// Output: <nil> name_missing: there is no name to greet
}

// A workflow waits for a signal at no cost, for as long as it takes.
func ExampleSignal() {
	wait := func(ctx workflow.Context) (string, error) {
		approve.Receive(ctx)
		return fmt.Sprintf("approved, another one is waiting: %t", approve.Waiting(ctx)), nil
	}

	env := newEnvironment()
	env.RegisterDelayedCallback(func() { env.SignalWorkflow(approve.Name, struct{}{}) }, 0)
	env.ExecuteWorkflow(wait)

	var text string
	fmt.Println(env.GetWorkflowResult(&text), text)
	// Output: <nil> approved, another one is waiting: false
}
