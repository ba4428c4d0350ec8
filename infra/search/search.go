// Package search asks a search engine that speaks SearXNG's JSON interface. The
// engine is the operator's, so its address is not guarded as those that models
// name are. It must not know who searches, or why.
package search

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"everloop/activities/tools"
	"everloop/domain"
)

// DefaultTimeout bounds one search.
const DefaultTimeout = 15 * time.Second

const (
	maxAnswer  = 4 << 20 // bytes of an engine's answer
	maxResults = 100
	maxField   = 4 << 10 // bytes of a title, an address or a snippet
)

// Config of a Client.
type Config struct {
	BaseURL string // SEARCH_URL, with or without a trailing /search
	// Demo reports that the engine makes its results up, as the mock service does.
	Demo    bool
	Timeout time.Duration // 0: DefaultTimeout
}

// Client asks one engine. It is safe for concurrent use.
type Client struct {
	endpoint *url.URL
	demo     bool
	http     *http.Client
}

// New returns a new client; it does not connect.
func New(cfg Config) (*Client, error) {
	base, err := url.Parse(cfg.BaseURL)
	if err != nil || base.Scheme != "http" && base.Scheme != "https" || base.Host == "" {
		return nil, errors.New("the search engine's address must be an http:// or https:// URL")
	}

	base.Path = strings.TrimSuffix(strings.TrimRight(base.Path, "/"), "/search")

	if cfg.Timeout <= 0 {
		cfg.Timeout = DefaultTimeout
	}

	return &Client{
		endpoint: base.JoinPath("search"), demo: cfg.Demo,
		http: &http.Client{
			Timeout: cfg.Timeout,
			// Another address does not get what is searched.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
			Transport: &http.Transport{
				Proxy: http.ProxyFromEnvironment, DialContext: (&net.Dialer{Timeout: 5 * time.Second}).DialContext,
				TLSHandshakeTimeout: 5 * time.Second, MaxIdleConnsPerHost: 8, IdleConnTimeout: time.Minute,
				MaxResponseHeaderBytes: 64 << 10, ForceAttemptHTTP2: true,
			},
		},
	}, nil
}

// answer is what is used of SearXNG's results.
type answer struct {
	Results []struct {
		Title   string `json:"title"`
		URL     string `json:"url"`
		Content string `json:"content"`
	} `json:"results"`
}

// Search implements tools.Searcher.
func (c *Client) Search(ctx context.Context, query string) (tools.WebResults, error) {
	at := *c.endpoint
	parameters := at.Query() // an operator may have put language=de or a key there
	parameters.Set("q", query)
	parameters.Set("format", "json")
	at.RawQuery = parameters.Encode()

	request, err := http.NewRequestWithContext(ctx, http.MethodGet, at.String(), nil)
	if err != nil {
		return tools.WebResults{}, failedf("the query cannot be sent")
	}

	request.Header.Set("Accept", "application/json")
	request.Header.Set("User-Agent", "Everloop/1.0 (WebSearch)")

	res, err := c.http.Do(request)
	if err != nil {
		return tools.WebResults{}, lost(ctx, err)
	}
	defer res.Body.Close()

	if res.StatusCode != http.StatusOK {
		return tools.WebResults{}, refusedBy(res)
	}

	body, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer+1))
	switch {
	case err != nil:
		return tools.WebResults{}, lost(ctx, err)
	case len(body) > maxAnswer:
		return tools.WebResults{}, failedf("the search engine's answer is longer than %d MB", maxAnswer>>20)
	}

	var a answer
	if err := json.Unmarshal(body, &a); err != nil {
		return tools.WebResults{}, failedf("the search engine did not answer in JSON; is its JSON format switched on?")
	}

	return c.results(a), nil
}

func (c *Client) results(a answer) tools.WebResults {
	out := tools.WebResults{Demo: c.demo}

	seen := map[string]bool{}
	for _, r := range a.Results[:min(len(a.Results), maxResults)] {
		if r.URL == "" || len(r.URL) > maxField || seen[r.URL] {
			continue
		}

		seen[r.URL] = true
		out.Items = append(out.Items, tools.WebResult{Title: bound(r.Title), URL: r.URL, Snippet: bound(r.Content)})
	}

	return out
}

func bound(text string) string {
	return strings.ToValidUTF8(text[:min(len(text), maxField)], "")
}

// lost says why there was no answer, without the address, which may hold a key.
func lost(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}

	if timeout, ok := errors.AsType[net.Error](err); ok && timeout.Timeout() {
		return failedf("the search engine did not answer in time")
	}

	return failedf("the search engine cannot be reached")
}

func refusedBy(res *http.Response) error {
	switch {
	case res.StatusCode == http.StatusTooManyRequests:
		wait := ""
		if seconds, err := strconv.Atoi(res.Header.Get("Retry-After")); err == nil && seconds > 0 {
			wait = fmt.Sprintf(" for %d seconds", seconds)
		}

		return failedf("the search engine takes no more queries%s (status 429); try again later", wait)
	case res.StatusCode == http.StatusForbidden:
		return failedf("the search engine refused the query (status 403); its JSON format may be switched off")
	case res.StatusCode >= 500:
		return failedf("the search engine has a fault of its own (status %d); try again later", res.StatusCode)
	default:
		return failedf("the search engine refused the query (status %d)", res.StatusCode)
	}
}

func failedf(format string, args ...any) error {
	return domain.Newf(domain.Conflict, "search_failed", format, args...)
}
