package desktop

import (
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"mime"
	"net/http"
	"path"
	"slices"
	"strings"

	"everloop/companions/edge"
)

// nonceMark is the placeholder in index.html for the nonce of a response, without which styles
// created by scripts (such as the editor's) are blocked.
const nonceMark = "__CSP_NONCE__"

// policy is the Content-Security-Policy of the pages. It blocks other origins, inline scripts
// and styles, and framing by other pages.
const policy = "default-src 'none'; script-src 'self'; style-src 'self' 'nonce-%s'; img-src 'self' blob: data:; media-src blob:; " +
	"font-src 'self'; connect-src 'self'; frame-src blob:; manifest-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"

// assets serves the built files. Files below assets/ have a hash of their content in their
// name, so that browsers cache them permanently; any other path belongs to the front end, and
// returns index.html.
type assets struct {
	index []byte
	files map[string]asset // by path, without the compressed forms
}

type asset struct {
	content map[string][]byte // by content encoding, "" for none
	mime    string
}

// encodings in the order of preference, with the endings of their files.
var encodings = []struct{ name, ending string }{{"br", ".br"}, {"gzip", ".gz"}, {"", ""}}

func openAssets(files fs.FS) (*assets, error) {
	index, err := fs.ReadFile(files, "index.html")
	if err != nil {
		return nil, fmt.Errorf("desktop: %w", err)
	}

	served := &assets{index: index, files: map[string]asset{}}
	err = fs.WalkDir(files, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || name == "index.html" {
			return err
		}

		content, err := fs.ReadFile(files, name)
		if err != nil {
			return err
		}

		served.add(name, content)

		return nil
	})

	return served, err
}

func (a *assets) add(name string, content []byte) {
	for _, encoding := range encodings {
		plain, ok := strings.CutSuffix(name, encoding.ending)
		if !ok {
			continue
		}

		file, known := a.files[plain]
		if !known {
			file = asset{content: map[string][]byte{}, mime: typeOf(plain)}
		}

		file.content[encoding.name] = content
		a.files[plain] = file

		return
	}
}

// typeOf returns the media type of a file by its name. It includes Markdown for pages of the
// documentation, which not every system defines.
func typeOf(name string) string {
	if path.Ext(name) == ".md" {
		return "text/markdown; charset=utf-8"
	}

	return mime.TypeByExtension(path.Ext(name))
}

// ServeHTTP implements http.Handler.
func (a *assets) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		edge.Write(w, edge.Refuse(http.StatusMethodNotAllowed, "method_not_allowed", "pages can only be read"))

		return
	}

	header := w.Header()
	header.Set("Cross-Origin-Opener-Policy", "same-origin")
	header.Set("Cross-Origin-Resource-Policy", "same-origin")
	header.Set("Permissions-Policy", "camera=(), geolocation=(), microphone=(), payment=(), usb=()")
	header.Set("X-Frame-Options", "DENY")

	name := strings.TrimPrefix(path.Clean(r.URL.Path), "/")
	if file, ok := a.files[name]; ok {
		file.serve(w, r, strings.HasPrefix(name, "assets/"))
		return
	}

	switch {
	case name == "assets" || strings.HasPrefix(name, "assets/"): // of another build: the page must be loaded again
		header.Set("Cache-Control", "no-store")
		edge.Write(w, edge.Refuse(http.StatusNotFound, "not_found", "no such file: reload the page"))
	case noPage(name, r):
		header.Set("Cache-Control", "no-store")
		edge.Write(w, edge.Refuse(http.StatusNotFound, "route_not_found", "the desktop has no such file"))
	default:
		a.serveIndex(w, r)
	}
}

// noPage reports whether a path without a file is not a page of the front end: a path that
// another program defines, or a request that is not a navigation.
func noPage(name string, r *http.Request) bool {
	for _, others := range []string{".well-known/", "oauth/"} {
		if strings.HasPrefix(name, others) {
			return true
		}
	}

	return path.Ext(name) != "" && !strings.Contains(r.Header.Get("Accept"), "text/html")
}

func (a *assets) serveIndex(w http.ResponseWriter, r *http.Request) {
	var random [16]byte

	_, _ = rand.Read(random[:]) // never fails
	nonce := base64.RawURLEncoding.EncodeToString(random[:])
	header := w.Header()
	header.Set("Content-Security-Policy", fmt.Sprintf(policy, nonce))
	header.Set("Cache-Control", "no-store")
	header.Set("Content-Type", "text/html; charset=utf-8")

	if r.Method == http.MethodGet {
		_, _ = w.Write(bytes.ReplaceAll(a.index, []byte(nonceMark), []byte(nonce))) // fails only if the client has disconnected
	}
}

func (f asset) serve(w http.ResponseWriter, r *http.Request, immutable bool) {
	header := w.Header()

	content, encoding, err := f.choose(r.Header.Values("Accept-Encoding"))
	if err != nil {
		edge.Write(w, edge.Refuse(http.StatusNotAcceptable, "not_acceptable", "no encoding of this file is accepted"))
		return
	}

	if encoding != "" {
		header.Set("Content-Encoding", encoding)
	}

	header.Set("Vary", "Accept-Encoding")
	header.Set("Content-Type", f.mime)
	header.Set("Content-Length", fmt.Sprint(len(content)))
	header.Set("Cache-Control", "no-cache")

	if immutable {
		header.Set("Cache-Control", "public, max-age=31536000, immutable")
	}

	if r.Method == http.MethodGet {
		_, _ = w.Write(content) // fails only if the client has disconnected
	}
}

// choose returns the smallest form that the client accepts. For a client that weights
// encodings, it excludes only encodings with q=0.
func (f asset) choose(accepted []string) (content []byte, encoding string, err error) {
	var names []string

	for one := range strings.SplitSeq(strings.Join(accepted, ","), ",") {
		name, weight, _ := strings.Cut(strings.TrimSpace(one), ";")
		if weight = strings.ReplaceAll(weight, " ", ""); strings.TrimRight(weight, "0.") != "q=" {
			names = append(names, strings.ToLower(strings.TrimSpace(name)))
		}
	}

	for _, one := range encodings {
		content, ok := f.content[one.name]
		if ok && (one.name == "" || slices.Contains(names, one.name)) {
			return content, one.name, nil
		}
	}

	return nil, "", errors.New("no encoding is accepted")
}
