package web

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"

	"everloop/activities/tools"
	"everloop/domain"
)

// Fetch implements tools.Web: it reads one page. Refusals and failures are domain errors for the
// model; after a cancellation it returns the context's error.
func (c *Client) Fetch(ctx context.Context, rawURL string, follow func(next string) bool) (tools.WebPage, error) {
	u, err := c.target(rawURL)
	if err != nil {
		return tools.WebPage{}, err
	}

	limited, cancel := context.WithTimeout(context.WithValue(ctx, followKey{}, follow), c.cfg.Timeout)
	defer cancel()

	page, err := c.get(limited, u)
	switch {
	case err == nil:
		return page, nil
	case ctx.Err() != nil:
		return tools.WebPage{}, context.Cause(ctx)
	default:
		return tools.WebPage{}, c.explain(limited, u, err)
	}
}

func (c *Client) get(ctx context.Context, u *url.URL) (tools.WebPage, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return tools.WebPage{}, malformedf("this is not a URL that can be read")
	}

	request.Header.Set("User-Agent", c.cfg.Identity)
	request.Header.Set(
		"Accept",
		"text/markdown, text/html;q=0.9, application/xhtml+xml;q=0.9, text/plain;q=0.8, application/json;q=0.8, */*;q=0.1",
	)
	request.Header.Set("Accept-Language", "en, *;q=0.5")

	res, err := c.http.Do(request)
	if err != nil {
		return tools.WebPage{}, err
	}
	defer res.Body.Close()

	page := tools.WebPage{URL: res.Request.URL.String(), Status: res.StatusCode, StatusText: http.StatusText(res.StatusCode)}

	return page, c.read(ctx, res, &page)
}

// read reads the content of a response into the page.
func (c *Client) read(ctx context.Context, res *http.Response, page *tools.WebPage) error {
	if encoding := res.Header.Get("Content-Encoding"); encoding != "" && !strings.EqualFold(encoding, "identity") {
		return unsupportedf("the page is packed as %s, which was not asked for", shown(encoding))
	}

	declared := res.Header.Get("Content-Type")
	if declared != "" && formOf(declared) == unreadable {
		if res.StatusCode >= 400 {
			return nil // the status suffices
		}

		return unsupportedf(
			"the page is of type %s%s; only HTML, text, JSON and XML are fetched",
			shown(mediaType(declared)),
			size(res.ContentLength),
		)
	}

	body, err := io.ReadAll(io.LimitReader(res.Body, c.cfg.MaxBody+1))
	if err != nil {
		return err
	}

	if int64(len(body)) > c.cfg.MaxBody {
		body = body[:c.cfg.MaxBody]
		page.Cut = fmt.Sprintf("Only the first %s of the page were read.", megabytes(c.cfg.MaxBody))
	}

	return c.convert(ctx, body, declared, res.Request.URL, page)
}

// explain describes a failure for the model, without addresses.
func (c *Client) explain(ctx context.Context, u *url.URL, err error) error {
	if known, ok := errors.AsType[*domain.Error](err); ok {
		return known
	}

	host := u.Host
	if failed, ok := errors.AsType[*url.Error](err); ok {
		if at, parseErr := url.Parse(failed.URL); parseErr == nil && at.Host != "" {
			host = at.Host // of the hop that failed
		}
	}

	if unknown, ok := errors.AsType[*net.DNSError](err); ok {
		if unknown.IsNotFound {
			return unreachablef("there is no host named %s", host)
		}

		return unreachablef("the name %s could not be looked up", host)
	}

	if ctx.Err() != nil {
		return unreachablef("%s took longer than %s, so the fetch was given up", host, c.cfg.Timeout)
	}

	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok || isCertificate(err) {
		return unreachablef("%s has no valid certificate", host)
	}

	if timeout, ok := errors.AsType[net.Error](err); ok && timeout.Timeout() {
		return unreachablef("%s did not answer in time", host)
	}

	if strings.Contains(err.Error(), "response headers exceeded") {
		return unreachablef("%s sent a header of more than %d KB", host, maxHeader>>10)
	}

	if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "dial" {
		return unreachablef("no connection to %s could be made", host)
	}

	return unreachablef("the answer of %s broke off or could not be understood", host)
}

func isCertificate(err error) bool {
	_, unknown := errors.AsType[x509.UnknownAuthorityError](err)
	_, wrongName := errors.AsType[x509.HostnameError](err)
	_, invalid := errors.AsType[x509.CertificateInvalidError](err)

	return unknown || wrongName || invalid
}

func unreachablef(format string, args ...any) error {
	return domain.Newf(domain.NotFound, "web_unreachable", format, args...)
}

func unsupportedf(format string, args ...any) error {
	return domain.Newf(domain.Unsupported, "web_unsupported", format, args...)
}

func megabytes(n int64) string {
	if n < 1<<20 {
		return fmt.Sprintf("%d KB", n>>10)
	}

	return fmt.Sprintf("%d MB", n>>20)
}

func size(n int64) string {
	if n < 0 {
		return ""
	}

	return fmt.Sprintf(" (%d bytes)", n)
}

// shown returns a server's text, truncated and sanitised.
func shown(word string) string {
	word = strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return -1
		}

		return r
	}, word)

	return word[:min(len(word), 100)]
}
