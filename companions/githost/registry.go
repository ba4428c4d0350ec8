package githost

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"everloop/companions/edge"
)

// Bounds of requests to the registry.
const (
	askTime     = 10 * time.Second
	publishTime = 5 * time.Minute
	maxAnswer   = 1 << 20
	retries     = 30
	retryAfter  = time.Second
)

// registry is a client of the skill registry that uses the pusher's token.
type registry struct {
	url  string
	http *http.Client
}

func newRegistry(base string) *registry {
	return &registry{url: strings.TrimRight(base, "/"), http: &http.Client{
		// The token must not be sent to another host.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// errUnavailable reports that the registry is unavailable.
func errUnavailable() error {
	return edge.Refuse(http.StatusServiceUnavailable, "registry_unavailable",
		"the skill registry does not answer, so that nothing was changed: try again")
}

// call sends a request. It returns a non-2xx response as *edge.Problem with the registry's
// text.
func (r *registry) call(ctx context.Context, method, path, token, contentType string, body io.Reader) (status int, data []byte, err error) {
	request, err := http.NewRequestWithContext(ctx, method, r.url+path, body)
	if err != nil {
		return 0, nil, fmt.Errorf("ask the registry: %w", err)
	}

	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}

	if contentType != "" {
		request.Header.Set("Content-Type", contentType)
	}

	response, err := r.http.Do(request)
	if err != nil {
		return 0, nil, errUnavailable()
	}
	defer response.Body.Close()

	if data, err = io.ReadAll(io.LimitReader(response.Body, maxAnswer)); err != nil {
		return 0, nil, errUnavailable()
	}

	if response.StatusCode >= 200 && response.StatusCode < 300 {
		return response.StatusCode, data, nil
	}

	var problem edge.Problem
	if json.Unmarshal(data, &problem) != nil || problem.Code == "" || response.StatusCode < 400 {
		return 0, nil, errUnavailable()
	}

	return 0, nil, edge.Refuse(response.StatusCode, problem.Code, "%s", problem.Detail)
}

// mayWrite checks that the owner of a token can publish for an organisation. exists is false
// for an organisation that the first publisher can create.
func (r *registry) mayWrite(ctx context.Context, org, token string) (exists bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()

	_, _, err = r.call(ctx, http.MethodGet, "/registry/organizations/"+url.PathEscape(org)+"/members", token, "", nil)
	if p, ok := errors.AsType[*edge.Problem](err); ok && p.Code == "organization_not_found" {
		return false, nil
	}

	return err == nil, err
}

// claim creates an organisation for the owner of a token.
func (r *registry) claim(ctx context.Context, org, token string) error {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()

	body, err := json.Marshal(map[string]string{"display_name": org})
	if err != nil {
		return err
	}

	_, _, err = r.call(
		ctx,
		http.MethodPut,
		"/registry/organizations/"+url.PathEscape(org),
		token,
		"application/json",
		bytes.NewReader(body),
	)

	return err
}

// ping checks that the registry works.
func (r *registry) ping(ctx context.Context) error {
	_, _, err := r.call(ctx, http.MethodGet, "/api/health", "", "", nil)
	return err
}

// upload is a package to publish.
type upload struct {
	id      repoID
	version string
	archive *os.File
	size    int64 // bytes of the archive
	commit  string
	branch  string
}

// published is the registry's description of a version.
type published struct {
	Digest   string   `json:"digest"`
	Warnings []string `json:"warnings"`
	again    bool     // it was published before, with the same content
}

// publish stores a version, with retries while the registry is busy.
func (r *registry) publish(ctx context.Context, token string, u upload) (out published, err error) {
	ctx, cancel := context.WithTimeout(ctx, publishTime)
	defer cancel()

	for tries := 1; ; tries++ {
		out, err = r.send(ctx, token, u)

		p, ok := errors.AsType[*edge.Problem](err)
		if !ok || p.Status != http.StatusTooManyRequests || tries == retries {
			return out, err
		}

		select {
		case <-ctx.Done():
			return out, err
		case <-time.After(retryAfter):
		}
	}
}

func (r *registry) send(ctx context.Context, token string, u upload) (out published, err error) {
	reader, writer := io.Pipe()
	defer reader.Close() // ends the goroutine

	form := multipart.NewWriter(writer)
	go func() { _ = writer.CloseWithError(u.write(form)) }()

	path := "/skills/" + url.PathEscape(u.id.org) + "/" + url.PathEscape(u.id.name) + "/versions/" + url.PathEscape(u.version)

	status, data, err := r.call(ctx, http.MethodPost, path, token, form.FormDataContentType(), reader)
	if err != nil {
		return out, err
	}

	if err := json.Unmarshal(data, &out); err != nil {
		return out, errUnavailable()
	}

	out.again = status == http.StatusOK

	return out, nil
}

func (u upload) write(form *multipart.Writer) error {
	for name, value := range map[string]string{"git_commit": u.commit, "git_branch": u.branch} {
		if err := form.WriteField(name, value); err != nil {
			return err
		}
	}

	part, err := form.CreateFormFile("file", "skill.zip")
	if err != nil {
		return err
	}

	if _, err := io.Copy(part, io.NewSectionReader(u.archive, 0, u.size)); err != nil {
		return err
	}

	return form.Close()
}
