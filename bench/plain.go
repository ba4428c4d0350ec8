package main

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"

	"github.com/gofiber/fiber/v2"
	"github.com/jackc/pgx/v5/pgxpool"

	"everloop/bench/target"
)

// plainEnv makes this program the baseline of the management interface: an HTTP
// server that does no more than a query, on the database that it names.
const plainEnv = "EVERLOOP_BENCH_RECORDS"

// plainSession is what the baseline answers of a session.
type plainSession struct {
	ID     string `json:"id"`
	Owner  string `json:"user_id"`
	Intent string `json:"intent"`
	Status string `json:"status"`
}

// servePlain is the baseline: Fiber and a pool of pgx as the service has them, one
// query, and JSON; no authentication, no validation, no log, no metrics.
func servePlain(url string) error {
	ctx := context.Background()

	cfg, err := pgxpool.ParseConfig(url)
	if err != nil {
		return err
	}

	cfg.MaxConns = 24

	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return err
	}

	app := fiber.New(fiber.Config{DisableStartupMessage: true})
	app.Get("/sessions/:id", func(c *fiber.Ctx) error {
		var s plainSession
		if err := pool.QueryRow(c.Context(), `SELECT id, owner_id, intent, status FROM sessions WHERE id = $1`, c.Params("id")).
			Scan(&s.ID, &s.Owner, &s.Intent, &s.Status); err != nil {
			return err
		}

		return c.JSON(s)
	})
	app.Get("/sessions", func(c *fiber.Ctx) error {
		rows, err := pool.Query(c.Context(), `
			SELECT id, owner_id, intent, status FROM sessions
			WHERE  owner_id = $1 AND deleted_at IS NULL ORDER BY is_pinned DESC, id DESC LIMIT 20 OFFSET $2`,
			c.Query("owner"), c.QueryInt("offset"))
		if err != nil {
			return err
		}
		defer rows.Close()

		list := []plainSession{}

		for rows.Next() {
			var s plainSession
			if err := rows.Scan(&s.ID, &s.Owner, &s.Intent, &s.Status); err != nil {
				return err
			}

			list = append(list, s)
		}

		if err := rows.Err(); err != nil {
			return err
		}

		return c.JSON(list)
	})

	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}

	fmt.Println(listener.Addr())

	return app.Listener(listener)
}

// startPlain runs the baseline as a process of its own, as the service is one, and
// gives a client of it.
func (b *bench) startPlain(ctx context.Context) (c *target.Client, stop func(), err error) {
	url, err := b.server.RecordsURL()
	if err != nil {
		return nil, nil, err
	}

	program, err := os.Executable()
	if err != nil {
		return nil, nil, err
	}

	cmd := exec.CommandContext(ctx, program)

	cmd.Env = append(os.Environ(), plainEnv+"="+url)
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}

	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, nil, err
	}

	if err := cmd.Start(); err != nil {
		return nil, nil, err
	}

	stop = func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}

	addr, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		stop()
		return nil, nil, fmt.Errorf("the baseline did not start: %w", err)
	}

	return target.NewClient("http://"+strings.TrimSpace(addr), ""), stop, nil
}
