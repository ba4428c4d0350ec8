package builtin

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"everloop/activities/tools"
	"everloop/domain"
)

//go:embed websearch.md
var webSearchDescription string

// Bounds of what is shown of a search.
const (
	maxWebResults = 10
	maxSnippet    = 600 // characters
)

type webSearchArguments struct {
	Query   string   `json:"query" jsonschema:"What to look for" limits:"2..1000"`
	Allowed []string `json:"allowed_domains,omitempty" jsonschema:"Only pages of these domains and those below" limits:"..20" each:"1..253"`
	Blocked []string `json:"blocked_domains,omitempty" jsonschema:"No pages of these domains and those below" limits:"..20" each:"1..253"`
}

type webSearch struct{ search tools.Searcher }

func newWebSearch(d tools.Deps) tools.Tool {
	w := webSearch{d.Search}

	return OfNetwork(tools.Tool{
		Name:        "WebSearch",
		DisplayName: "Web search",
		Spec: domain.ToolSpec{
			Name:        "WebSearch",
			Description: webSearchDescription,
			Parameters:  tools.Parameters[webSearchArguments](),
		},
		Executing: true,
		Run:       w.run,
		Check:     checkWebSearch,
		Summary:   tools.SummaryBy("query"),
	}, d)
}

func checkWebSearch(arguments json.RawMessage) string {
	in, err := tools.Decode[webSearchArguments](arguments)
	switch {
	case err != nil:
		return "the arguments cannot be read"
	case strings.TrimSpace(in.Query) == "":
		return "query is empty"
	}

	for _, name := range slices.Concat(in.Allowed, in.Blocked) {
		if bareDomain(name) == "" {
			return tools.Quote(name) + " is not a domain; write example.com"
		}
	}

	return ""
}

func (w webSearch) run(ctx context.Context, c *tools.Call) (tools.Result, error) {
	in, err := tools.Decode[webSearchArguments](c.Arguments)
	if err != nil {
		return tools.Result{}, err
	}
	// Most engines understand site:, and need it to find what is rare; the results
	// are filtered by the lists all the same.
	found, err := w.search.Search(ctx, narrowed(in))
	if ctx.Err() != nil {
		return tools.Result{}, context.Cause(ctx)
	}

	if err != nil {
		return webTrouble("The search failed", err)
	}

	return tools.Result{Output: list(in, found)}, nil
}

func narrowed(in webSearchArguments) string {
	query := tools.OneLine(in.Query)

	var sites []string
	for _, name := range in.Allowed {
		sites = append(sites, "site:"+bareDomain(name))
	}

	query = strings.TrimSpace(query + " " + strings.Join(sites, " OR "))
	for _, name := range in.Blocked {
		query += " -site:" + bareDomain(name)
	}

	return query
}

// list shows the results that the lists let through.
func list(in webSearchArguments, found tools.WebResults) string {
	var out strings.Builder
	if found.Demo {
		out.WriteString(
			"[DEMO: these results are made up by the mock service, not found on the web. Set SEARCH_URL for a real search.]\n\n",
		)
	}

	shown := 0
	for _, item := range found.Items {
		if shown == maxWebResults {
			break
		}

		if !wanted(item.URL, in) {
			continue
		}

		shown++
		fmt.Fprintf(&out, "%d. %s\n   %s\n", shown, orUntitled(tools.Cut(tools.OneLine(item.Title), 300)), tools.OneLine(item.URL))

		if snippet := tools.Cut(tools.OneLine(item.Snippet), maxSnippet); snippet != "" {
			fmt.Fprintf(&out, "   %s\n", snippet)
		}
	}

	if shown == 0 {
		fmt.Fprintf(&out, "Nothing was found for %s.", tools.Quote(in.Query))

		if dropped := len(found.Items); dropped > 0 {
			fmt.Fprintf(&out, " %d results were left out because of their domains.", dropped)
		}

		return out.String()
	}

	out.WriteString("\nRead a page with WebFetch before you rely on it.")

	return out.String()
}

func orUntitled(title string) string {
	if title == "" {
		return "(no title)"
	}

	return title
}

// wanted reports whether a result is a web page that the lists let through.
func wanted(address string, in webSearchArguments) bool {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" {
		return false
	}

	host := strings.ToLower(strings.TrimSuffix(u.Hostname(), "."))
	within := func(name string) bool {
		name = bareDomain(name)
		return host == name || strings.HasSuffix(host, "."+name)
	}
	allowed := len(in.Allowed) == 0 || slices.ContainsFunc(in.Allowed, within)

	return allowed && !slices.ContainsFunc(in.Blocked, within)
}

// bareDomain takes the domain out of what a model writes: example.com,
// *.example.com, or https://example.com/. It is empty when there is none.
func bareDomain(name string) string {
	name = strings.ToLower(strings.TrimSpace(name))
	if _, rest, found := strings.Cut(name, "://"); found {
		name = rest
	}

	name, _, _ = strings.Cut(name, "/")

	name = strings.Trim(strings.TrimPrefix(name, "*."), ".")
	if strings.ContainsAny(name, " \t\"'()|:@?#*\\") {
		return ""
	}

	return name
}
