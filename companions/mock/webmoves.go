package mock

import (
	"regexp"
	"strings"
)

var foundAddress = regexp.MustCompile(`\bhttps?://\S+/pages/\S+`)

// webMoves searches the web and reads the first page that was found.
func webMoves(said string) []move {
	query := strings.TrimSpace(webWords.ReplaceAllString(said, " "))
	if len(query) < 2 {
		query = "durable execution"
	}

	return []move{
		{
			thinking: "A search first, then the best page.",
			say:      says("I search the web."),
			calls:    []Call{use("WebSearch", map[string]any{"query": query[:prefixLength(query, 200)]})},
		},
		{
			say: func(c *conversation) string {
				if addressFound(c) == "" {
					return "Nothing was found, or I may not look. That was the whole script."
				}

				return "I read the first page that was found."
			},
			act: func(c *conversation) []Call {
				if address := addressFound(c); address != "" {
					return []Call{use("WebFetch", map[string]any{"url": address})}
				}

				return nil
			},
		},
		{
			say: reports(
				"The page says:",
				"The results were made up by the mock service; with `SEARCH_URL` set, the same tools search the real web.",
			),
		},
	}
}

// addressFound is the first page in the newest results; empty when there is none
// or it may not be fetched.
func addressFound(c *conversation) string {
	if !c.req.offers("WebFetch") {
		return ""
	}

	for _, result := range c.results(c.step - 1) {
		if address := foundAddress.FindString(result); address != "" {
			return address
		}
	}

	return ""
}

var webWords = regexp.MustCompile(`\b(please|can you|search|for|the|web|internet|online|look up|on|in|me|a|an|find)\b|[^\w\s-]`)
