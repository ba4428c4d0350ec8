package web

import (
	"bytes"
	"encoding/base64"
	"image"
	"image/png"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"everloop/domain"
)

// anyHost admits every host.
func anyHost(string, uint16) error { return nil }

func TestClient_Picture(t *testing.T) {
	t.Parallel()

	var pixel bytes.Buffer
	require.NoError(t, png.Encode(&pixel, image.NewRGBA(image.Rect(0, 0, 1, 1))))

	other := newSite(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(pixel.Bytes()) })
	inner := newSite(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(pixel.Bytes()) })
	s := newSite(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/pixel":
			_, _ = w.Write(pixel.Bytes())
		case "/moved":
			http.Redirect(w, r, other.URL+"/pixel", http.StatusFound)
		case "/inside":
			http.Redirect(w, r, inner.URL+"/pixel", http.StatusFound)
		case "/metadata":
			http.Redirect(w, r, "http://169.254.169.254/latest/", http.StatusFound)
		case "/text":
			w.Header().Set("Content-Type", "image/png")
			_, _ = w.Write([]byte("<svg>no picture</svg>"))
		case "/large":
			_, _ = w.Write(append(pixel.Bytes(), make([]byte, 2048)...))
		default:
			http.NotFound(w, r)
		}
	})
	at := func(s *site) string { return s.Listener.Addr().String() }
	c := newClient(t, Config{Allow: []string{at(s), at(other)}, MaxBody: 1024, Timeout: time.Minute})

	want := "data:image/png;base64," + base64.StdEncoding.EncodeToString(pixel.Bytes())

	for _, path := range []string{"/pixel", "/moved"} {
		got, err := c.Picture(t.Context(), s.URL+path, anyHost)
		require.NoError(t, err, path)
		require.Equal(t, want, got)
	}

	for address, code := range map[string]string{
		s.URL + "/inside": "picture_refused", s.URL + "/metadata": "picture_refused", inner.URL + "/pixel": "picture_refused",
		"http://169.254.169.254/latest/meta-data/": "picture_refused", "http://localhost/": "picture_refused",
		"http://10.0.0.1/x.png": "picture_refused", "http://user:pass@example.org/": "picture_refused", "http://0x7f.1/": "picture_refused",
		s.URL + "/text": "picture_unavailable", s.URL + "/large": "picture_unavailable", s.URL + "/missing": "picture_unavailable",
	} {
		_, err := c.Picture(t.Context(), address, anyHost)
		require.Equal(t, code, domain.AsError(err).Code, address)
		require.Equal(t, "body.message.image_url", domain.AsError(err).Fields[0].Location)
	}

	require.Zero(t, inner.hits.Load())
}

func TestClient_Picture_asksAboutEachHop(t *testing.T) {
	t.Parallel()

	other := newSite(t, func(http.ResponseWriter, *http.Request) {})
	s := newSite(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, strings.Replace(other.URL, "127.0.0.1", "localhost", 1), http.StatusFound)
	})
	c := newClient(t, Config{Allow: []string{"127.0.0.1", "localhost"}, Timeout: time.Minute})

	denied := func(host string, _ uint16) error {
		if host == "localhost" {
			return domain.Newf(domain.Forbidden, "web_refused", "a rule denies it")
		}

		return nil
	}

	_, err := c.Picture(t.Context(), s.URL, denied)
	require.Equal(t, "picture_refused", domain.AsError(err).Code)
	require.EqualValues(t, 1, s.hits.Load())
	require.Zero(t, other.hits.Load())

	_, err = c.Picture(t.Context(), strings.Replace(s.URL, "127.0.0.1", "localhost", 1), denied)
	require.Equal(t, "picture_refused", domain.AsError(err).Code)
	require.EqualValues(t, 1, s.hits.Load(), "a denied address is not requested")
}
