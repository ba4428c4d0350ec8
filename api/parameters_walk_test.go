package api_test

import (
	"fmt"
	"net/url"
	"regexp"
	"strings"

	"github.com/stretchr/testify/require"
)

// tryParameter tries one parameter of a path or a query on both sides of its
// bounds.
func (w *world) tryParameter(d *bounds, c call, who, in, name string, required bool, s *shape) {
	t := w.t

	s = d.of(s)
	if s.kind() == "array" {
		return // its values are repeated parameters, which the walk of the operation tries
	}

	inside, outside := d.sides(s)
	location := in + "." + name
	try := func(value string) reply { return w.do(c.method, c.withParameter(in, name, value), who, c.body) }

	for _, v := range outside {
		text := fmt.Sprint(v)
		if s.kind() == "string" {
			if kind := fmt.Sprintf("%T", v); kind != "string" || in == "path" && text == "" {
				continue // everything in a URL is text, and a path without the segment is another
			}
		} else if text == "1" || text == "true" || text == "[]" {
			text = "x"
		}

		r := try(text)
		require.Equal(t, 422, r.status, "%s %.60q: %s", location, text, r.text)
		require.Contains(t, r.fields(), location, "%s %.60q", location, text)
	}

	if in == "query" && required {
		r := w.do(c.method, c.withoutParameter(name), who, c.body)
		require.Contains(t, r.fields(), location, r.text)
	}

	if c.stream || c.method == "DELETE" && in == "path" {
		return
	}

	for _, v := range inside {
		text := fmt.Sprint(v)
		if f, ok := v.(float64); ok {
			text = fmt.Sprintf("%.0f", f)
		}

		w.notRefused(c, try(text), location, fmt.Sprintf("%s is %.60q", location, text))
	}

	if s.kind() == "string" {
		for _, odd := range oddTexts {
			r := w.do(c.method, c.withParameterAsIs(in, name, odd), who, c.body)
			if r.status >= 400 && r.status != c.status {
				r.problem(r.status)
				require.Less(t, r.status, 500, "%s %.60q: %s", location, odd, r.text)
			}
		}
	}
}

// oddTexts are parts of URLs that a client should not send.
var oddTexts = []string{
	"%00",
	"a%00b",
	"%ff",
	"%ED%A0%80",
	"%F0%9F%98%80",
	"%E2%80%AE",
	"%20",
	"%27%3B--",
	"%25",
	"..%2f..",
	"%2e%2e",
	"-1",
	"9223372036854775808",
	"1e400",
	strings.Repeat("x", 300),
	strings.Repeat("x", 3000),
	strings.Repeat("%C3%A4", 500),
	"null",
	"%5B%5D",
	"%7B%7D",
	"%0d%0aSet-Cookie:a=b",
}

var (
	braces = regexp.MustCompile(`\{(\w+)\}`)
	quoted = regexp.MustCompile(`\\\{(\w+)\\\}`)
)

// values returns the parameters of the call's own path, as they stand in it.
func (c call) values() map[string]string {
	match := regexp.MustCompile("^" + quoted.ReplaceAllString(regexp.QuoteMeta(c.path), `(?P<$1>.*?)`) + "/?$")
	path, _, _ := strings.Cut(c.url, "?")
	found := match.FindStringSubmatch(path)
	out := map[string]string{}

	for i, name := range match.SubexpNames() {
		if name != "" && found != nil {
			out[name] = found[i]
		}
	}

	return out
}

// withParameter returns the URL of the call with another value.
func (c call) withParameter(in, name, value string) string {
	if in == "query" {
		value = url.QueryEscape(value)
	} else {
		value = url.PathEscape(value)
	}

	return c.withParameterAsIs(in, name, value)
}

func (c call) withParameterAsIs(in, name, value string) string {
	if in == "query" {
		rest := c.withoutParameter(name)
		if strings.Contains(rest, "?") {
			return rest + "&" + name + "=" + value
		}

		return rest + "?" + name + "=" + value
	}

	values := c.values()
	values[name] = value

	path := braces.ReplaceAllStringFunc(c.path, func(s string) string { return values[strings.Trim(s, "{}")] })
	if _, query, found := strings.Cut(c.url, "?"); found {
		path += "?" + query
	}

	return path
}

func (c call) withoutParameter(name string) string {
	path, query, _ := strings.Cut(c.url, "?")

	var left []string

	for pair := range strings.SplitSeq(query, "&") {
		if key, _, _ := strings.Cut(pair, "="); key != name && pair != "" {
			left = append(left, pair)
		}
	}

	if len(left) == 0 {
		return path
	}

	return path + "?" + strings.Join(left, "&")
}
