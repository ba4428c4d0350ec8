// Package lifecycle runs the long-lived services of a process: they stop together, in layers, and
// every error is reported. It must not depend on the services.
package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"sync"
)

// Service is a long-lived part of the process.
type Service interface {
	// Name returns the name of the service in errors.
	Name() string
	// Run runs until ctx is cancelled and releases all resources before it returns. A service
	// that returns earlier stops the other services of its layer, even without an error.
	Run(ctx context.Context) error
}

// Layer is a set of services that start and stop concurrently.
type Layer []Service

// Run runs the services of all layers until ctx is cancelled or one of them returns. It stops the
// upper layers, which are the last arguments, first: a service can use the services of lower
// layers until it has returned. Run returns the first error with the name of its service.
func Run(ctx context.Context, layers ...Layer) error {
	ctx, end := context.WithCancel(ctx)
	defer end()

	group := &group{end: end}

	ended := make([]func(), len(layers))
	for i, layer := range layers {
		below, stop := context.WithCancel(context.WithoutCancel(ctx))
		defer stop()

		if i == len(layers)-1 {
			below, stop = ctx, func() {}
		}

		var running sync.WaitGroup
		for _, service := range layer {
			running.Go(func() { group.run(below, service) })
		}

		ended[i] = func() { stop(); running.Wait() }
	}

	for i := len(ended) - 1; i >= 0; i-- {
		ended[i]()
	}

	return group.first
}

// group collects the results of services.
type group struct {
	end   func() // stops the upper layer
	once  sync.Once
	first error
}

func (g *group) run(ctx context.Context, service Service) {
	defer g.end()

	err := service.Run(ctx)
	if err == nil || ctx.Err() != nil && errors.Is(err, context.Canceled) {
		return
	}

	g.once.Do(func() { g.first = fmt.Errorf("%s: %w", service.Name(), err) })
}

// Func returns a service that runs a function.
func Func(name string, run func(ctx context.Context) error) Service {
	return function{name, run}
}

// Loop returns a service that runs until ctx is cancelled and cannot fail. Returning earlier is
// an error.
func Loop(name string, run func(ctx context.Context)) Service {
	return Func(name, func(ctx context.Context) error {
		run(ctx)

		if ctx.Err() == nil {
			return errors.New("ended by itself")
		}

		return nil
	})
}

// Task returns a service that can finish before ctx is cancelled; the others continue.
func Task(name string, run func(ctx context.Context)) Service {
	return Func(name, func(ctx context.Context) error {
		run(ctx)
		<-ctx.Done()

		return nil
	})
}

type function struct {
	name string
	run  func(ctx context.Context) error
}

func (f function) Name() string { return f.name }

func (f function) Run(ctx context.Context) error { return f.run(ctx) }
