package web

import (
	"context"
	"io"
	"net/http"

	"everloop/domain"
)

// bounded checks requests and limits responses.
type bounded struct {
	client *Client
	next   http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (b bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		return nil, refusef("only GET requests are sent")
	}

	if err := b.client.checkURL(r.URL); err != nil {
		return nil, err
	}

	res, err := b.next.RoundTrip(r.WithContext(context.WithValue(r.Context(), pathKey{}, r.URL.Path)))
	if err != nil {
		return nil, err
	}
	// One byte more than Fetch reads, so that it can distinguish a full body from a too long one.
	res.Body = &boundedBody{ReadCloser: res.Body, left: b.client.cfg.MaxBody + 1}

	return res, nil
}

// boundedBody fails after too much data, regardless of Content-Length.
type boundedBody struct {
	io.ReadCloser
	left int64
}

var errTooLong = domain.Newf(domain.TooLarge, "web_too_large", "the answer is too long")

func (b *boundedBody) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, errTooLong
	}

	n, err := b.ReadCloser.Read(p[:min(int64(len(p)), b.left)])
	b.left -= int64(n)

	return n, err
}
