package web

import (
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"slices"
	"time"

	"everloop/domain"
)

// Limits of a picture for a message.
const (
	MaxPicture     = 10 << 20
	PictureTimeout = 20 * time.Second
)

// Admit returns an error for a refused connection to a port of a canonical host.
type Admit func(host string, port uint16) error

// admitKey is the context key of the function that decides about each hop to a picture.
type admitKey struct{}

// Picture fetches a picture and returns it as a data URL. It calls admit before each connection,
// including redirects. Refusals are domain errors with the code picture_refused, failures of the
// server with picture_unavailable.
func (c *Client) Picture(ctx context.Context, address string, admit Admit) (string, error) {
	if err := c.admitted(address, admit); err != nil {
		return "", pictureRefused(err)
	}

	ctx, cancel := context.WithTimeout(context.WithValue(ctx, admitKey{}, admit), c.cfg.Timeout)
	defer cancel()

	u, err := c.target(address)
	if err != nil {
		return "", pictureRefused(err)
	}

	request, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return "", pictureRefused(malformedf("this is not a URL that can be read"))
	}

	request.Header.Set("User-Agent", c.cfg.Identity)
	request.Header.Set("Accept", "image/png, image/jpeg, image/webp, image/gif")

	res, err := c.http.Do(request)
	if err != nil {
		return "", c.pictureFault(c.explain(ctx, u, err))
	}
	defer res.Body.Close()

	if res.StatusCode != http.StatusOK {
		return "", pictureUnavailable(fmt.Sprintf("its server answers with status %d", res.StatusCode))
	}

	data, err := io.ReadAll(io.LimitReader(res.Body, c.cfg.MaxBody+1))
	if err != nil {
		return "", c.pictureFault(c.explain(ctx, u, err))
	}

	if int64(len(data)) > c.cfg.MaxBody {
		return "", pictureUnavailable(fmt.Sprintf("it is larger than %s", megabytes(c.cfg.MaxBody)))
	}

	mime := http.DetectContentType(data)
	if !slices.Contains(domain.ImageTypes, mime) {
		return "", pictureUnavailable("it is not a PNG, JPEG, GIF or WebP picture")
	}

	return "data:" + mime + ";base64," + base64.StdEncoding.EncodeToString(data), nil
}

// admitted checks an address lexically and with admit, before a connection.
func (c *Client) admitted(address string, admit Admit) error {
	host, port, err := c.Destination(address)
	if err != nil {
		return err
	}

	return admit(host, port)
}

// pictureFault sets the code of a failed fetch: refusals are not retried.
func (c *Client) pictureFault(err error) error {
	if domain.AsError(err).Kind == domain.Forbidden {
		return pictureRefused(err)
	}

	return pictureUnavailable(domain.AsError(err).Message)
}

func pictureRefused(err error) error {
	return aboutPicture("picture_refused", domain.AsError(err).Message)
}

func pictureUnavailable(why string) error { return aboutPicture("picture_unavailable", why) }

func aboutPicture(code, why string) error {
	err := domain.Invalidf("body.message.image_url", "the picture cannot be used: %s", why)
	err.Code = code

	return err
}
