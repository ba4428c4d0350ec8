package web

import (
	"net/url"
	"strconv"
	"strings"

	dom "golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

// Limits of a conversion. The converter indents every line once for each enclosing list and
// quotation and pads tables to their longest row, so a small page could become a huge text.
const (
	maxText    = 1 << 20 // bytes of text
	maxNodes   = 150_000
	maxNesting = 12 // maximum nested lists and quotations
	maxCells   = 50_000
)

// pruner removes invisible, useless and excessive content from a page.
type pruner struct {
	base       *url.URL
	title      string
	cut        bool
	bytes      int
	nodes      int
	nesting    int
	based      bool
	titleTaken bool
}

func (p *pruner) prune(n *dom.Node) {
	for child := n.FirstChild; child != nil; {
		next := child.NextSibling
		if p.drop(child) {
			n.RemoveChild(child)
		} else {
			p.descend(child)
		}

		child = next
	}
}

func (p *pruner) descend(n *dom.Node) {
	deep := false

	switch n.DataAtom {
	case atom.Ul, atom.Ol, atom.Blockquote:
		deep = true

		if p.nesting++; p.nesting > maxNesting {
			rename(n, atom.Div)
		}
	case atom.Li:
		if p.nesting > maxNesting {
			rename(n, atom.Div)
		}
	case atom.Table:
		if cells(n) > maxCells {
			flatten(n)
		}
	}

	p.prune(n)

	if deep {
		p.nesting--
	}
}

// drop reports whether to remove a node, and extracts metadata from it.
func (p *pruner) drop(n *dom.Node) bool {
	switch n.Type {
	case dom.CommentNode:
		return true
	case dom.TextNode:
		if p.bytes += len(n.Data); p.bytes > maxText {
			p.cut = true
			return true
		}
	case dom.ElementNode:
		return p.dropElement(n)
	}

	return p.crowded()
}

func (p *pruner) crowded() bool {
	p.nodes++
	if p.nodes > maxNodes {
		p.cut = true
	}

	return p.nodes > maxNodes
}

// dropElement is drop for an element.
func (p *pruner) dropElement(n *dom.Node) bool {
	switch n.DataAtom {
	case atom.Title:
		if n.Namespace == "" && !p.titleTaken {
			p.title, p.titleTaken = words(n), true
		}

		return true
	case atom.Base:
		p.rebase(attribute(n, "href"))
		return true
	case atom.Script, atom.Style, atom.Noscript, atom.Template, atom.Iframe, atom.Object, atom.Embed, atom.Canvas,
		atom.Svg, atom.Math, atom.Audio, atom.Video, atom.Meta, atom.Link:
		return true
	case atom.Img:
		if strings.HasPrefix(strings.ToLower(strings.TrimSpace(attribute(n, "src"))), "data:") {
			return true
		}
	case atom.A:
		if u, err := url.Parse(strings.TrimSpace(attribute(n, "href"))); err != nil || u.Scheme == "javascript" || u.Scheme == "data" {
			rename(n, atom.Span)
		}
	case atom.Td, atom.Th:
		narrow(n)
	}

	return invisible(n) || p.crowded()
}

// rebase applies the page's base element to the resolution of links.
func (p *pruner) rebase(href string) {
	u, err := p.base.Parse(href)
	if p.based || href == "" || err != nil || u.Scheme != "http" && u.Scheme != "https" {
		return
	}

	p.base, p.based = u, true
}

// invisible reports whether readers do not see an element; models should not obey such text.
func invisible(n *dom.Node) bool {
	for _, a := range n.Attr {
		switch a.Key {
		case "hidden":
			return true
		case "style":
			style := strings.ToLower(strings.ReplaceAll(a.Val, " ", ""))
			if strings.Contains(style, "display:none") || strings.Contains(style, "visibility:hidden") {
				return true
			}
		}
	}

	return false
}

// narrow removes spans that are wider than plausible tables.
func narrow(n *dom.Node) {
	kept := n.Attr[:0]
	for _, a := range n.Attr {
		if a.Key == "colspan" || a.Key == "rowspan" {
			if span, err := strconv.Atoi(a.Val); err != nil || span < 1 || span > 50 {
				continue
			}
		}

		kept = append(kept, a)
	}

	n.Attr = kept
}

// cells returns an upper bound for the cells of a table after padding its rows.
func cells(table *dom.Node) int {
	rows, widest := 0, 0

	var count func(n *dom.Node)

	count = func(n *dom.Node) {
		for child := n.FirstChild; child != nil; child = child.NextSibling {
			switch child.DataAtom {
			case atom.Tr:
				rows++
				widest = max(widest, width(child))
				count(child)
			default:
				count(child)
			}
		}
	}
	count(table)

	return rows * widest
}

func width(row *dom.Node) int {
	total := 0

	for cell := row.FirstChild; cell != nil; cell = cell.NextSibling {
		if cell.DataAtom == atom.Td || cell.DataAtom == atom.Th {
			narrow(cell)
			columns, _ := strconv.Atoi(attribute(cell, "colspan"))
			rows, _ := strconv.Atoi(attribute(cell, "rowspan")) // spans of rows make later rows longer
			total += max(columns, 1) * max(rows, 1)
		}
	}

	return total
}

// flatten converts a table's rows to lines.
func flatten(n *dom.Node) {
	switch n.DataAtom {
	case atom.Table, atom.Thead, atom.Tbody, atom.Tfoot, atom.Tr:
		rename(n, atom.Div)
	case atom.Td, atom.Th:
		rename(n, atom.Span)
	}

	for child := n.FirstChild; child != nil; child = child.NextSibling {
		flatten(child)
	}
}

func rename(n *dom.Node, to atom.Atom) {
	n.DataAtom, n.Data, n.Attr = to, to.String(), nil
}

func attribute(n *dom.Node, name string) string {
	for _, a := range n.Attr {
		if a.Key == name {
			return a.Val
		}
	}

	return ""
}

// words returns the text of a node on one line.
func words(n *dom.Node) string {
	var text strings.Builder

	for child := range n.Descendants() {
		if child.Type == dom.TextNode {
			text.WriteString(child.Data)
		}
	}

	line := strings.Join(strings.Fields(text.String()), " ")

	return strings.ToValidUTF8(line[:min(len(line), 500)], "")
}
