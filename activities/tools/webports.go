package tools

import (
	"context"

	"everloop/domain"
)

// Web fetches pages of the public Internet.
type Web interface {
	// Fetch reads one page by GET. Refused and failed fetches are domain errors
	// with words for the model. A redirect to another host ends the fetch with a refusal
	// that names the new address; so does one that follow rejects. A nil follow rejects none.
	Fetch(ctx context.Context, url string, follow func(next string) bool) (WebPage, error)
	// Destination returns the canonical host and the port of a URL. It refuses a URL that
	// Fetch refuses whatever address its host has, and connects to nothing.
	Destination(url string) (host string, port uint16, err error)
}

// WebPage is what a fetch gave. Text is valid UTF-8: Markdown where the page is
// HTML, else the content as it is.
type WebPage struct {
	URL         string // after redirects
	Status      int    // of HTTP
	StatusText  string
	Title       string
	ContentType string
	Text        string
	Cut         string // says in a sentence what is missing; empty: nothing
	Note        string // says in a sentence what else must be known
}

// Searcher searches the web.
type Searcher interface {
	// Search asks for pages. Refused and failed searches are domain errors with
	// words for the model.
	Search(ctx context.Context, query string) (WebResults, error)
}

// WebResults are pages that were found, best first.
type WebResults struct {
	Items []WebResult
	// Demo reports that the results are made up for a demonstration.
	Demo bool
}

// WebResult is one page that was found.
type WebResult struct {
	Title, URL, Snippet string
}

// Asker puts one question to the model of a chat, without tools and apart from
// its conversation (docs/web.md#webfetch).
type Asker interface {
	Ask(ctx context.Context, q ModelQuery) (answer string, err error)
}

// ModelQuery is what a tool asks a model. What it costs counts for the chat.
type ModelQuery struct {
	SessionID    domain.SessionID
	ChatID       domain.ChatID
	System, Text string
}
