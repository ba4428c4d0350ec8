package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"

	"everloop/bench/proc"
	"everloop/bench/result"
	"everloop/bench/target"
)

const (
	messagesTurns  = 10_000
	messagesFewer  = 1_000
	messagesRounds = 20
	messagesFirst  = 50 // ms until the first byte
	messagesAtOnce = 20
	messagesGrowth = 64 // MiB that ten times the turns may take more: what 20 readers of them were sent is 540
	slowReaders    = 40 // more than the service has connections to its records
)

// measureMessages takes the reading of long histories: when it begins, what it holds
// in memory, pages of it, and readers that stand still.
func measureMessages(ctx context.Context, b *bench) error {
	seed, err := b.newSeeder(ctx)
	if err != nil {
		return err
	}
	defer seed.conn.Close(ctx)

	long := map[int]string{}
	for _, turns := range []int{messagesFewer, messagesTurns} {
		long[turns] = seed.session(seed.owner, "a long one", nil, false, turns, func(int) string { return seed.text(150) })
		for n := 1; n < turns; n += 10 {
			seed.call(long[turns], n, strings.Repeat(seed.text(20)+"\n", 20))
		}
	}

	if err := seed.write(ctx); err != nil {
		return err
	}

	path := func(turns int) string { return "/api/sessions/" + long[turns] + "/messages" }

	if err := b.held(ctx, path); err != nil { // first: what a service has once used it keeps for a while
		return err
	}

	var first, firstFewer, whole, wholeFewer result.Sample
	for range messagesRounds {
		for turns, into := range map[int][2]*result.Sample{messagesTurns: {&first, &whole}, messagesFewer: {&firstFewer, &wholeFewer}} {
			begun, ended, _, err := b.client.Read(ctx, path(turns))
			if err != nil {
				return err
			}

			into[0].Add(begun)
			into[1].Add(ended)
		}
	}

	b.samples("first byte of 10,000 turns (bare: 1,000)", "ms", first, firstFewer, result.AtMost(messagesFirst))
	b.value("  p95", "ms", first.Quantile(0.95), result.AtMost(messagesFirst))
	b.samples("  to the last byte (bare: 1,000)", "ms", whole, wholeFewer, nil)

	if err := b.pages(ctx, seed, long[messagesTurns]); err != nil {
		return err
	}

	return b.slow(ctx, path(messagesTurns), "/api/sessions/"+long[messagesFewer])
}

// pages takes pages of 100 turns beside the bare query of them.
func (b *bench) pages(ctx context.Context, seed *seeder, session string) error {
	for _, p := range []struct {
		name  string
		after int
	}{{"first", -1}, {"middle", messagesTurns/2 - 1}, {"last", messagesTurns - 101}} {
		var ours, bare result.Sample

		for range messagesRounds {
			var turns []struct{ Sequence int }

			began := time.Now()

			err := b.client.Call(
				ctx,
				http.MethodGet,
				fmt.Sprintf("/api/sessions/%s/messages?limit=100&after_sequence=%d", session, p.after),
				nil,
				&turns,
			)
			if err != nil {
				return err
			}

			ours.Add(time.Since(began))

			if len(turns) != 100 || turns[0].Sequence != p.after+1 {
				return fmt.Errorf("the %s page has %d turns", p.name, len(turns))
			}

			began = time.Now()

			rows, err := seed.conn.Query(
				ctx,
				`SELECT id, role, blocks FROM entries WHERE branch_id = $1 AND sequence > $2 ORDER BY sequence LIMIT 100`,
				session+"-b",
				p.after,
			)
			if err != nil {
				return err
			}

			for rows.Next() {
				if _, err := rows.Values(); err != nil {
					return err
				}
			}

			if err := rows.Err(); err != nil {
				return err
			}

			bare.Add(time.Since(began))
		}

		b.samples(p.name+" page of 100 turns (bare: pgx alone)", "ms", ours, bare, nil)
	}

	return nil
}

// held takes by how much the service's memory grows while several clients read a
// list at once: to the peak, from what it had before it read any.
func (b *bench) held(ctx context.Context, path func(turns int) string) error {
	pid := b.server.Cmd.Process.Pid

	before, err := resetPeak(pid)
	if err != nil {
		return err
	}

	grown := map[int]float64{}

	var size int64

	for _, turns := range []int{messagesFewer, messagesTurns} {
		for range messagesTurns / turns { // as many turns in all, so that the collector is late as often
			if size, err = b.readAtOnce(ctx, path(turns)); err != nil {
				return err
			}
		}

		peak, err := peakMemory(pid)
		if err != nil {
			return err
		}

		grown[turns] = result.Mebibytes(peak - before)
	}

	b.value("10,000 turns as JSON", "MiB", result.Mebibytes(size), nil)
	b.compare(
		fmt.Sprintf("memory more at the peak, %d read them at once (bare: 1,000)", messagesAtOnce),
		"MiB",
		grown[messagesTurns],
		grown[messagesFewer],
		nil,
	)
	b.value("  more than for 1,000 turns", "MiB", grown[messagesTurns]-grown[messagesFewer], result.AtMost(messagesGrowth))

	return nil
}

// readAtOnce has several clients read the same list, and gives its size.
func (b *bench) readAtOnce(ctx context.Context, path string) (size int64, err error) {
	var group sync.WaitGroup

	errs := make([]error, messagesAtOnce)
	for i := range errs {
		group.Go(func() {
			_, _, bytes, err := b.client.Read(ctx, path)
			if i == 0 {
				size = bytes
			}

			errs[i] = err
		})
	}

	group.Wait()

	return size, errors.Join(errs...)
}

// resetPeak resets the kernel's peak of a process's resident memory,
// and gives what is resident now.
func resetPeak(pid int) (int64, error) {
	if err := os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", pid), []byte("5"), 0); err != nil {
		return 0, err
	}

	return statusField(pid, "VmRSS:")
}

func peakMemory(pid int) (int64, error) { return statusField(pid, "VmHWM:") }

func statusField(pid int, name string) (int64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	return proc.Field(text, name), err
}

// slow takes what others feel of readers that have begun a long list and stand
// still.
func (b *bench) slow(ctx context.Context, path, other string) error {
	ask := func() (target.Load, error) {
		return b.client.Requests(ctx, 300, 5, func(int) string { return other })
	}

	alone, err := ask()
	if err != nil {
		return err
	}

	before, err := statusField(b.server.Cmd.Process.Pid, "VmRSS:")
	if err != nil {
		return err
	}

	small := target.NewClient(b.client.Base, b.client.Key)

	small.HTTP.Transport = &http.Transport{DialContext: (&net.Dialer{Control: func(_, _ string, conn syscall.RawConn) error {
		var set error

		err := conn.Control(func(fd uintptr) { set = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, 8<<10) })

		return errors.Join(err, set)
	}}).DialContext}
	for range slowReaders {
		response, err := small.Request(ctx, http.MethodGet, path, "application/json", nil)
		if err != nil {
			return fmt.Errorf("a slow reader: %w", err)
		}
		defer response.Body.Close()

		if _, err := io.ReadFull(response.Body, make([]byte, 1000)); err != nil {
			return fmt.Errorf("a slow reader: %w", err)
		}
	}

	beside, err := ask()
	if err != nil {
		return err
	}

	after, err := statusField(b.server.Cmd.Process.Pid, "VmRSS:")
	if err != nil {
		return err
	}

	b.samples(fmt.Sprintf("GET of a session beside %d slow readers (bare: alone)", slowReaders), "ms", beside.Took, alone.Took, nil)
	b.value("memory of a slow reader", "MiB", result.Mebibytes(after-before)/slowReaders, nil)

	return nil
}
