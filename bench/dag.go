package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"golang.org/x/sync/errgroup"

	"everloop/bench/proc"
	"everloop/bench/result"
	"everloop/bench/target"
)

const (
	dagNodes  = 200
	dagRounds = 5
	dagGoal   = 25 // milliseconds that a trivial node adds
	dagWidth  = 32 // nodes of a run that work at once
)

// measureDAG takes what a node adds to a run of a DAG: nodes that do nothing, one after the
// other, and nodes that run a command, side by side.
func measureDAG(ctx context.Context, b *bench) error {
	if err := b.measureRow(ctx); err != nil {
		return err
	}

	return b.measureCommands(ctx)
}

// nodesOf gives n nodes that are alike.
func nodesOf(n int, node func() target.Object) []target.Object {
	nodes := make([]target.Object, n)
	for i := range nodes {
		nodes[i] = node()
	}

	return nodes
}

func (b *bench) measureRow(ctx context.Context) error {
	row, err := b.client.PublishDAG(ctx, target.Row(nodesOf(dagNodes-2, func() target.Object { return target.Object{"type": "join"} })))
	if err != nil {
		return err
	}

	var nodes, bare result.Sample

	meter := proc.StartMeter(b.server.Cmd.Process.Pid)

	for range dagRounds {
		run, err := b.client.RunDAG(ctx, row)
		if err != nil {
			return err
		}

		nodes = append(nodes, result.Milliseconds(run.Took)/dagNodes)
	}

	used := meter.Read()

	for range dagRounds {
		took, err := b.bareRow(dagNodes)
		if err != nil {
			return err
		}

		bare = append(bare, result.Milliseconds(took)/dagNodes)
	}

	b.samples(fmt.Sprintf("a node of %d that do nothing, in a row", dagNodes), "ms", nodes, bare, result.AtMost(dagGoal))
	b.cost("such a node", used, dagRounds*dagNodes)

	return nil
}

// bareRow is the baseline of nodes in a row: each is a line of a file, and durable before
// the next one.
func (b *bench) bareRow(n int) (time.Duration, error) {
	began := time.Now()
	err := b.bareNodes(func(c *conversation, file *os.File) error {
		for range n {
			if err := c.keep(file, bareMessage{Role: "node"}); err != nil {
				return err
			}
		}

		return nil
	})

	return time.Since(began), err
}

func (b *bench) measureCommands(ctx context.Context) error {
	count := min(dagNodes-2, b.commands)
	command := func() target.Object { return target.Object{"type": "code", "config": target.Object{"code": "true"}} }

	wide, err := b.client.PublishDAG(ctx, target.SideBySide(nodesOf(count, command)))
	if err != nil {
		return err
	}

	meter := proc.StartMeter(b.server.Cmd.Process.Pid)

	run, err := b.client.RunDAG(ctx, wide)
	if err != nil {
		return err
	}

	used := meter.Read()

	bare, err := b.bareCommands(ctx, count)
	if err != nil {
		return err
	}

	per := func(d time.Duration) float64 { return result.Milliseconds(d) / float64(count) }
	b.compare(fmt.Sprintf("a node of %d that run `true`, side by side", count), "ms", per(run.Took), per(bare), nil)
	b.value("  the most at once", "", float64(run.Width()), result.AtLeast(float64(min(count, dagWidth))))
	b.cost("such a node", used, count)

	return nil
}

// bareCommands is the baseline of nodes side by side: as many commands, as many at once,
// each with a line of a file that is durable.
func (b *bench) bareCommands(ctx context.Context, n int) (time.Duration, error) {
	began := time.Now()
	group, running := errgroup.WithContext(ctx)
	group.SetLimit(dagWidth)

	var call bareCall

	call.Function.Arguments = `{"command": "true"}`

	for range n {
		group.Go(func() error {
			return b.bareNodes(func(c *conversation, file *os.File) error {
				output, err := c.runTool(running, call)
				if err != nil {
					return err
				}

				return c.keep(file, bareMessage{Role: "node", Content: output})
			})
		})
	}

	err := group.Wait()

	return time.Since(began), err
}

// bareNodes does nodes of the baseline with a file for their results.
func (b *bench) bareNodes(do func(c *conversation, file *os.File) error) error {
	c := b.bare.conversation()

	file, err := os.OpenFile(c.path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer file.Close()

	return do(c, file)
}
