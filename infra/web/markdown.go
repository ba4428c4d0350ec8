package web

import (
	"context"
	"errors"
	"net/url"
	"strings"

	"github.com/JohannesKaufmann/html-to-markdown/v2/converter"
	"github.com/JohannesKaufmann/html-to-markdown/v2/plugin/base"
	"github.com/JohannesKaufmann/html-to-markdown/v2/plugin/commonmark"
	"github.com/JohannesKaufmann/html-to-markdown/v2/plugin/table"
	dom "golang.org/x/net/html"

	"everloop/activities/tools"
)

// converted is the result of a conversion.
type converted struct {
	title, text string
	cut         bool
	err         error
}

// markdown converts a page to Markdown. The libraries cannot be interrupted, so they run in other
// goroutines, a limited number concurrently, and markdown returns at the deadline of the fetch.
func (c *Client) markdown(ctx context.Context, content string, at *url.URL, page *tools.WebPage) error {
	select {
	case c.converting <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}

	done := make(chan converted, 1)

	go func() {
		defer func() { <-c.converting }()

		done <- toMarkdown(content, at)
	}()

	var out converted
	select {
	case out = <-done:
	case <-ctx.Done():
		return ctx.Err()
	}

	if out.err != nil {
		out = plain(content)
		page.Note = "The page is nested too deeply for Markdown: this is its bare text."
	}

	page.Title, page.Text = out.title, out.text
	if out.cut && page.Cut == "" {
		page.Cut = "The page is too large to convert: only its beginning is here."
	}

	return nil
}

// toMarkdown converts HTML to Markdown, with links resolved against at. A panic of the converter is
// returned as an error.
func toMarkdown(content string, at *url.URL) (out converted) {
	defer func() {
		if p := recover(); p != nil {
			out = converted{err: errors.New("the converter gave up")}
		}
	}()

	document, err := dom.Parse(strings.NewReader(content))
	if err != nil {
		return converted{err: err}
	}

	p := pruner{base: at}
	p.prune(document)
	// Escapes are for renderers and useless to a model, and determining where they are needed
	// takes time quadratic in the length of a line.
	conv := converter.NewConverter(converter.WithEscapeMode(converter.EscapeModeDisabled), converter.WithPlugins(
		base.NewBasePlugin(),
		commonmark.NewCommonmarkPlugin(),
		table.NewTablePlugin(
			// Padded cells would make a table as large as its longest cell times its rows.
			table.WithCellPaddingBehavior(table.CellPaddingBehaviorMinimal),
			table.WithNewlineBehavior(table.NewlineBehaviorPreserve),
			table.WithHeaderPromotion(true),
		),
	))

	text, err := conv.ConvertNode(document, converter.WithDomain(p.base.String()))
	if err != nil {
		return converted{err: err}
	}

	return converted{title: p.title, text: strings.TrimSpace(string(text)), cut: p.cut}
}

// plain extracts the text of a page without its structure.
func plain(content string) converted {
	var (
		out  converted
		text strings.Builder
	)

	tokens := dom.NewTokenizer(strings.NewReader(content))
	tokens.SetMaxBuf(maxText)

	hidden, titled := "", false

	for text.Len() < maxText {
		switch tokens.Next() {
		case dom.ErrorToken:
			out.text = strings.TrimSpace(text.String())
			return out
		case dom.StartTagToken:
			name, _ := tokens.TagName()
			switch tag := string(name); {
			case hidden != "":
			case tag == "script", tag == "style", tag == "noscript", tag == "template":
				hidden = tag
			case tag == "title":
				titled = true
			}
		case dom.EndTagToken:
			if name, _ := tokens.TagName(); string(name) == hidden {
				hidden = ""
			}
		case dom.TextToken:
			words := strings.Join(strings.Fields(string(tokens.Text())), " ")
			switch {
			case hidden != "" || words == "":
			case titled && out.title == "":
				out.title = words
			default:
				text.WriteString(words)
				text.WriteByte('\n')
			}
		}
	}

	out.text, out.cut = strings.TrimSpace(text.String()), true

	return out
}
