package main

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strconv"

	"everloop/bench/proc"
	"everloop/bench/result"
	"everloop/bench/target"
)

const (
	listSessions = 20_000 // of one user
	listOthers   = 2_000  // of others
	listAtOnce   = 20
	listRequests = 200
	listRounds   = 3
	listGoal     = 50 // ms, p95
)

// measureLists takes the list of sessions and its search, 20 requests at once, in an
// account of 20,000 sessions with two turns each.
func measureLists(ctx context.Context, b *bench) error {
	seed, err := b.newSeeder(ctx)
	if err != nil {
		return err
	}
	defer seed.conn.Close(ctx)

	var before struct{ Total int }
	if err := b.client.Call(ctx, http.MethodGet, "/api/sessions?limit=1", nil, &before); err != nil {
		return err
	}

	if err := seed.account(ctx); err != nil {
		return err
	}

	all := listSessions + before.Total

	took, err := seed.untilSearchable(ctx, b.client)
	if err != nil {
		return err
	}

	b.value(fmt.Sprintf("%d texts into the index of searches", 3*listSessions), "s", took.Seconds(), nil)

	plain, stop, err := b.startPlain(ctx)
	if err != nil {
		return err
	}
	defer stop()

	list := func(query string) func(int) string {
		return func(int) string { return "/api/sessions?" + query }
	}

	search := func(text string) func(int) string { return list("q=" + url.QueryEscape(text)) }
	for _, c := range []struct {
		name   string
		path   func(i int) string
		total  int
		offset int // of the baseline: its plain query of a page
	}{
		{"first page", list("limit=20"), all, 0},
		{"page 500", list("limit=20&offset=9980"), all, 9980},
		{"any of 1,000 pages", func(i int) string { return "/api/sessions?limit=20&offset=" + strconv.Itoa(i*7919%1000*20) }, all, 9980},
		{"one template of ten", list("template_id_prefix=team_3/"), listSessions / 10, 0},
		{"one template of ten, page 50", list("template_id_prefix=team_3/&offset=980"), listSessions / 10, 980},
		{"search, in 10 sessions", search("Quokka"), 10, 0},
		{"search, in none", search("no such word"), 0, 0},
		{"search, in 100 by their turns", search("wombat said"), 100, 0},
		{"search, in 2,000", search("release"), 2000, 0},
		{"search, in 2,000, page 50", list("q=release&offset=980"), 2000, 980},
		{"search, in 200 of 2,000 by template", list("q=release&template_id_prefix=team_0/"), -1, 0},
		{"search, in 5,000", search("deploy"), 5000, 0},
		{"search, in all 20,000", search("project"), listSessions, 0},
		{"search, % and _", search("100%_x"), 20, 0},
		{"search, Cyrillic", search("ПРИВЕТ"), 20, 0},
		{"search, two Chinese characters", search("設定"), 20, 0},
		{"search, two letters (not in the index)", search("q9"), 20, 0},
	} {
		var page struct{ Total int }
		if err := b.client.Call(ctx, http.MethodGet, c.path(0), nil, &page); err != nil {
			return err
		}

		if c.total >= 0 && page.Total != c.total {
			return fmt.Errorf("%s: %d sessions, not %d", c.name, page.Total, c.total)
		}

		best, err := target.BestOf(listRounds, target.Quicker,
			func() (target.Load, error) { return b.client.Requests(ctx, listRequests, listAtOnce, c.path) },
			func() (target.Load, error) {
				return plain.Requests(ctx, listRequests, listAtOnce, func(int) string {
					return fmt.Sprintf("/sessions?owner=%s&offset=%d", seed.owner, c.offset)
				})
			})
		if err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}

		b.compare(c.name+", p95", "ms", best[0].Took.Quantile(0.95), best[1].Took.Quantile(0.95), result.AtMost(listGoal))
		b.compare("  median", "ms", best[0].Took.Median(), best[1].Took.Median(), nil)

		meter := proc.StartMeter(b.server.Cmd.Process.Pid)
		if _, err := b.client.Requests(ctx, listRequests, listAtOnce, c.path); err != nil {
			return err
		}

		used := meter.Read()
		b.value("  CPU of one, with PostgreSQL's", "ms", result.Milliseconds(used.Tree.Sum())/listRequests, nil)
	}

	return nil
}

// account gives the client's user and other users their sessions.
func (s *seeder) account(ctx context.Context) error {
	others := make([]string, 20)
	for i := range others {
		others[i] = fmt.Sprintf("bench-user-%d", i)
		if _, err := s.conn.Exec(ctx, `INSERT INTO users (id, username) VALUES ($1, $1)`, others[i]); err != nil {
			return err
		}
	}

	for n := range listSessions + listOthers {
		owner, intent := s.owner, "project "+s.text(5)
		if n >= listSessions {
			owner = others[n%len(others)]
		}

		words := [2]string{s.text(12), s.text(25)}
		for _, rare := range []struct {
			every int
			text  string
		}{{4, " deploy"}, {10, " release"}, {1000, " 100%_x q9 Приве́т привет 設定画面"}, {2000, " quokka"}} {
			if n%rare.every == 0 {
				intent += rare.text
			}
		}

		if n%200 == 7 {
			words[1] += " the Wombat said"
		}

		template := fmt.Sprintf("team_%d/t%d", n/10%10, n%7)
		s.session(owner, intent, &template, n%500 == 0, 2, func(turn int) string { return words[turn] })
	}

	return s.write(ctx)
}
