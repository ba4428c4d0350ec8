package web

import (
	"context"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/net/html/charset"
	"golang.org/x/text/transform"

	"everloop/activities/tools"
)

// form is the handling of a content type.
type form int

const (
	unreadable form = iota
	asHTML
	asText
)

// texts lists text types without the prefix text/.
var texts = []string{
	"application/json", "application/ld+json", "application/x-ndjson", "application/jsonl", "application/xml",
	"application/javascript", "application/x-javascript", "application/ecmascript", "application/yaml", "application/x-yaml",
	"application/toml", "application/sql", "application/graphql", "application/x-sh", "application/x-httpd-php",
	"application/rtf", "application/x-tex", "application/x-subrip", "message/rfc822",
}

func mediaType(declared string) string {
	kind, _, err := mime.ParseMediaType(declared)
	if err != nil {
		kind, _, _ = strings.Cut(declared, ";")
	}

	return strings.ToLower(strings.TrimSpace(kind))
}

func formOf(declared string) form {
	kind := mediaType(declared)
	switch {
	case kind == "text/html", kind == "application/xhtml+xml":
		return asHTML
	case strings.HasPrefix(kind, "text/"), strings.HasSuffix(kind, "+json"), strings.HasSuffix(kind, "+xml"),
		strings.HasSuffix(kind, "+yaml"), slices.Contains(texts, kind):
		return asText
	default:
		return unreadable
	}
}

// convert converts the body of a response to text.
func (c *Client) convert(ctx context.Context, body []byte, declared string, at *url.URL, page *tools.WebPage) error {
	if declared == "" {
		declared = http.DetectContentType(body)
	}

	page.ContentType = shown(mediaType(declared))

	form := formOf(declared)
	if form == unreadable {
		return unsupportedf("the page does not say its type and looks like %s; only HTML, text, JSON and XML are fetched", page.ContentType)
	}

	content := decode(body, declared)
	if strings.IndexByte(content, 0) >= 0 {
		return unsupportedf("the page says that it is %s but holds binary data", page.ContentType)
	}

	if form == asText {
		page.Text = content
		return nil
	}

	return c.markdown(ctx, content, at, page)
}

// decode returns the content as valid UTF-8. JSON, and valid content without a declared encoding,
// is taken as UTF-8. Invalid bytes are replaced.
func decode(body []byte, declared string) string {
	encoding, _, certain := charset.DetermineEncoding(body, declared)

	content := body
	if json := strings.HasSuffix(mediaType(declared), "json"); !(json || !certain) || !utf8.Valid(body) {
		if decoded, _, err := transform.Bytes(encoding.NewDecoder(), body); err == nil {
			content = decoded
		}
	}

	return strings.TrimPrefix(strings.ToValidUTF8(string(content), "\ufffd"), "\ufeff")
}
