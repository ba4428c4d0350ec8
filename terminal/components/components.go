// Package components checks a deployment: it requests the health of every component in
// start order, and names the container whose log explains a failure. It does not depend on
// the functions of the components.
package components

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"everloop/internal/release"
)

// Component is a part of a deployment.
type Component struct {
	Name      string // for people
	Key       string // for release.Compatible
	Container string // in docker-compose.yml
	Variable  string // sets its address
	URL       string // without a path; empty: skip the component
	Path      string // of the health request
	Status    bool   // the answer must be {"status": "ok"}
	Needs     string // path that must exist, for callers with credentials; empty: none
}

// Result is the outcome of one health request.
type Result struct {
	Name      string `json:"name"`
	OK        bool   `json:"ok"`
	URL       string `json:"url"`
	Status    int    `json:"status,omitempty"`  // 0: no response
	Version   string `json:"version,omitempty"` // empty: unknown
	Problem   string `json:"problem,omitempty"`
	Container string `json:"container,omitempty"` // its log explains the problem
	Hint      string `json:"hint,omitempty"`
	Skipped   bool   `json:"skipped,omitempty"`
}

// maxBody bounds a response, in bytes.
const maxBody = 64 << 10

// Check probes the components one after the other, each with a timeout.
func Check(ctx context.Context, list []Component, timeout time.Duration) []Result {
	results := make([]Result, 0, len(list))
	for _, c := range list {
		results = append(results, Probe(ctx, c, timeout))
	}

	return results
}

// Probe requests the health of a component.
func Probe(ctx context.Context, c Component, timeout time.Duration) Result {
	out := Result{Name: c.Name, URL: strings.TrimRight(c.URL, "/") + c.Path}
	if c.URL == "" {
		out.URL, out.Skipped, out.OK = "", true, true
		return out
	}

	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()

	problem := out.request(ctx, c)
	if problem == nil {
		problem = out.compatible(ctx, c)
	}

	if out.OK = problem == nil; out.OK {
		return out
	}

	out.Problem, out.Container = problem.Error(), c.Container
	out.Hint = fmt.Sprintf("read the log of the container %s (docker compose logs %s)", c.Container, c.Container)

	if out.Status == 0 {
		out.Hint += fmt.Sprintf(", and check its address in %s", c.Variable)
	}

	return out
}

func (r *Result) request(ctx context.Context, c Component) error {
	status, header, body, err := get(ctx, r.URL)
	if err != nil {
		return err
	}

	r.Status, r.Version = status, header.Get(release.Header)

	if status != http.StatusOK {
		return fmt.Errorf("returned status %d", status)
	}

	if c.Status {
		var health struct{ Status string }
		if json.Unmarshal(body, &health) != nil || health.Status != "ok" {
			return errors.New(`did not return {"status": "ok"}: another program can use its port`)
		}
	}

	return nil
}

// compatible checks the reported version and the path that the agent needs.
func (r *Result) compatible(ctx context.Context, c Component) error {
	if r.Version != "" {
		if err := release.Compatible(c.Key, r.Version); err != nil {
			return err
		}
	}

	if c.Needs == "" {
		return nil
	}

	status, _, _, err := get(ctx, strings.TrimRight(c.URL, "/")+c.Needs)
	if err != nil {
		return err
	}

	if status == http.StatusNotFound {
		return fmt.Errorf("does not serve GET %s, which the agent needs: upgrade it", c.Needs)
	}

	return nil
}

// client does not follow redirects: the target is another service.
var client = &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}

func get(ctx context.Context, address string) (status int, header http.Header, body []byte, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, address, http.NoBody)
	if err != nil {
		return 0, nil, nil, errors.New("invalid address")
	}

	res, err := client.Do(r)
	if err != nil {
		if fault, ok := errors.AsType[*url.Error](err); ok {
			err = fault.Err // without the address, which can contain a password
		}

		if errors.Is(err, context.DeadlineExceeded) {
			err = errors.New("timed out")
		}

		return 0, nil, nil, fmt.Errorf("unreachable: %w", err)
	}
	defer res.Body.Close()

	body, err = io.ReadAll(io.LimitReader(res.Body, maxBody))
	if err != nil {
		return 0, nil, nil, fmt.Errorf("failed to read the response: %w", err)
	}

	return res.StatusCode, res.Header, body, nil
}

// Failed reports whether a component has a problem.
func Failed(results []Result) bool {
	for _, r := range results {
		if !r.OK {
			return true
		}
	}

	return false
}

// WriteText writes the results as text, one component a line.
func WriteText(w io.Writer, results []Result) error {
	var out strings.Builder

	failed := 0

	for i, r := range results {
		switch {
		case r.Skipped:
			fmt.Fprintf(&out, "%d  skip  %-16s no address\n", i+1, r.Name)
		case r.OK:
			fmt.Fprintf(&out, "%d  ok    %-16s %s %s\n", i+1, r.Name, r.URL, r.Version)
		default:
			failed++

			fmt.Fprintf(&out, "%d  FAIL  %-16s %s %s: %s\n", i+1, r.Name, r.URL, r.Problem, r.Hint)
		}
	}

	if failed > 0 {
		fmt.Fprintf(&out, "\n%d of %d components failed.\n", failed, len(results))
	} else {
		fmt.Fprintf(&out, "\nAll components are healthy.\n")
	}

	_, err := io.WriteString(w, out.String())

	return err
}

// WriteJSON writes the results as JSON.
func WriteJSON(w io.Writer, results []Result) error {
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")

	return encoder.Encode(map[string]any{"ok": !Failed(results), "components": results})
}
