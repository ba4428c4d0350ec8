package web

import (
	"errors"
	"net/url"
	"strconv"
	"strings"

	"everloop/domain"
)

const maxURL = 8 << 10 // bytes

// target parses and checks the URL of a fetch.
func (c *Client) target(raw string) (*url.URL, error) {
	raw = strings.TrimSpace(raw)
	if len(raw) > maxURL {
		return nil, malformedf("the URL is longer than %d bytes", maxURL)
	}

	u, err := url.Parse(raw)
	if err != nil {
		return nil, malformedf("this is not a URL that can be read; give one such as https://example.com/page")
	}

	if err := c.checkURL(u); err != nil {
		return nil, err
	}

	u.Fragment, u.RawFragment = "", ""

	return u, nil
}

// Destination implements tools.Web.
func (c *Client) Destination(raw string) (host string, port uint16, err error) {
	u, err := c.target(raw)
	if err != nil {
		return "", 0, err
	}

	if host, err = domain.CanonicalHost(u.Hostname()); err != nil {
		return "", 0, malformedf("the URL's host is not a valid name")
	}

	port = portOf(u)
	if err := c.guard.CheckName(host, port, u.Path); err != nil {
		return "", 0, refusef("%s", err)
	}

	return host, port, nil
}

// portOf returns the port of a checked URL.
func portOf(u *url.URL) uint16 {
	number, err := strconv.ParseUint(u.Port(), 10, 16)

	switch {
	case err == nil:
		return uint16(number)
	case u.Scheme == "http":
		return 80
	default:
		return 443
	}
}

// sameHost reports whether a redirect stays on its host, possibly from http to https.
func sameHost(from, to *url.URL) bool {
	if !strings.EqualFold(strings.TrimSuffix(from.Hostname(), "."), strings.TrimSuffix(to.Hostname(), ".")) {
		return false
	}

	upgraded := from.Scheme == "http" && to.Scheme == "https" && portOf(from) == 80 && portOf(to) == 443

	return upgraded || from.Scheme == to.Scheme && portOf(from) == portOf(to)
}

// checkURL rejects URLs lexically. It precedes the check of the address and does not replace it.
func (c *Client) checkURL(u *url.URL) error {
	switch {
	case u.Scheme != "http" && u.Scheme != "https":
		return refusef("only http:// and https:// URLs are fetched")
	case u.User != nil:
		return refusef("URLs with a user name or password in them are not fetched")
	case u.Opaque != "" || u.Hostname() == "":
		return malformedf("the URL has no host")
	}

	if port := u.Port(); port != "" {
		if number, err := strconv.ParseUint(port, 10, 16); err != nil || number == 0 {
			return malformedf("the URL's port is not a port")
		}
	}

	return checkHost(u.Hostname())
}

// checkHost rejects host names that some resolvers parse as addresses, such as 0x7f.1, 2130706433
// or 127.1.
func checkHost(host string) error {
	_, err := domain.CanonicalHost(host)
	switch {
	case errors.Is(err, domain.ErrOddAddress):
		return refusef("the URL's host is an address in an odd form; write it as four decimal numbers")
	case err != nil:
		return malformedf("the URL's host is not a valid name")
	}

	return nil // the guard checks its address
}

func malformedf(format string, args ...any) error {
	return domain.Newf(domain.Malformed, "invalid_url", format, args...)
}
