// Package langchain offers tools of the langchaingo framework to the agent: one
// adapter for all of them, and a list of those that may be used. A tool that
// cannot be kept to the guarded HTTP client, or runs what it is given without a
// bound, is not on the list. It must not know what chats or sessions are.
package langchain

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	framework "github.com/tmc/langchaingo/tools"
	"github.com/tmc/langchaingo/tools/wikipedia"

	"everloop/activities/tools"
)

// Config says which tools are offered, and what they reach.
type Config struct {
	// Names is LANGCHAIN_TOOLS: calculator, wikipedia, or wikipedia=URL with the api.php of
	// another MediaWiki, such as a company's.
	Names []string
	// HTTP is the client for tools that read from the web: guarded and bounded.
	HTTP *http.Client

	wikipedia string // the address of wikipedia=URL; empty: the English Wikipedia
}

const identity = "Everloop/1.0 (langchain tools)"

// Wikipedia names the tool that reaches the network.
const Wikipedia = "Wikipedia"

// available makes each tool that may be used.
var available = map[string]func(Config) (adapted, error){
	"calculator": func(Config) (adapted, error) {
		return adapted{
			Tool: framework.Calculator{}, name: "Calculator", check: checkExpression, example: "(3.5 + 4) * sqrt(2)",
			about: "Works out an arithmetic expression: numbers, + - * / // %, parentheses, and functions such as sqrt, pow, sin, log, " +
				"ceil and round; pi and e.",
		}, nil
	},
	"wikipedia": func(cfg Config) (adapted, error) {
		client, err := wikiClient(cfg)
		if err != nil {
			return adapted{}, err
		}

		return adapted{
			Tool: wikipedia.New(identity, wikipedia.WithHTTPClient(client)), name: Wikipedia, example: "Ada Lovelace",
			about: "Looks a subject up in Wikipedia and returns the beginnings of the two articles that fit best.",
		}, nil
	},
}

// Tools makes the tools that the configuration names; a name that is not
// available is refused with those that are.
func Tools(cfg Config) ([]tools.Tool, error) {
	var out []tools.Tool

	seen := map[string]bool{}

	for _, entry := range cfg.Names {
		name, api, other := strings.Cut(strings.TrimSpace(entry), "=")
		name = strings.ToLower(name)
		if name == "" || seen[name] {
			continue
		}

		seen[name] = true

		build, ok := available[name]
		if !ok {
			return nil, fmt.Errorf("LANGCHAIN_TOOLS: there is no tool %q; available are %s", name, strings.Join(Available(), ", "))
		}

		if other && (name != "wikipedia" || api == "") {
			return nil, fmt.Errorf("LANGCHAIN_TOOLS: %q must be the name of a tool, or wikipedia=URL", entry)
		}

		cfg.wikipedia = api

		tool, err := build(cfg)
		if err != nil {
			return nil, fmt.Errorf("LANGCHAIN_TOOLS: %s: %w", name, err)
		}

		out = append(out, Adapt(tool.Tool, Options{Name: tool.name, Description: tool.describe(), Check: tool.check}))
	}

	return out, nil
}

// Available lists the names that Tools takes.
func Available() []string {
	var names []string
	for name := range available {
		names = append(names, name)
	}

	slices.Sort(names)

	return names
}

// adapted is a tool of the framework with what models read about it: its own
// description may speak of things that we restrict.
type adapted struct {
	framework.Tool
	name, about, example string
	check                func(input string) string
}

func (a adapted) describe() string {
	input, _ := json.Marshal(map[string]string{"input": a.example}) // strings always encode
	return a.about + "\n\nExample: " + string(input)
}

// wikiClient sends what is meant for Wikipedia to the MediaWiki that is
// configured, whose address cannot be set in the framework.
func wikiClient(cfg Config) (*http.Client, error) {
	if cfg.wikipedia == "" {
		return cfg.HTTP, nil
	}

	to, err := url.Parse(cfg.wikipedia)
	if err != nil || to.Scheme != "http" && to.Scheme != "https" || to.Host == "" {
		return nil, errors.New("the address must be the http:// or https:// address of an api.php")
	}

	client := *cfg.HTTP
	client.Transport = elsewhere{to, cfg.HTTP.Transport}

	return &client, nil
}

// elsewhere sends requests for Wikipedia to another MediaWiki.
type elsewhere struct {
	to   *url.URL
	next http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (e elsewhere) RoundTrip(r *http.Request) (*http.Response, error) {
	if !strings.HasSuffix(r.URL.Hostname(), ".wikipedia.org") {
		return e.next.RoundTrip(r) // where a redirect led
	}

	r = r.Clone(r.Context())
	query := r.URL.RawQuery
	target := *e.to
	target.RawQuery = query
	r.URL, r.Host = &target, ""

	return e.next.RoundTrip(r)
}

// run calls the framework's tool apart, since not all of them listen to the
// context.
func run(ctx context.Context, tool framework.Tool, input string) (string, error) {
	type outcome struct {
		text string
		err  error
	}

	done := make(chan outcome, 1)

	go func() {
		defer func() {
			if p := recover(); p != nil {
				done <- outcome{err: fmt.Errorf("the tool panicked: %v", p)}
			}
		}()

		text, err := tool.Call(ctx, input)
		done <- outcome{text, err}
	}()

	select {
	case o := <-done:
		return o.text, o.err
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
}
