// Package skillregistry is the HTTP client of the skill registry. It knows what the
// registry offers and nothing of sessions or of who has which skills.
package skillregistry

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"everloop/domain"
	"everloop/domain/skill"
	"everloop/internal/safezip"
)

// Client sends requests to the skill registry. The methods of a nil Client fail with
// skill.CodeNoRegistry: no registry is configured.
type Client struct {
	base string
	http *http.Client
}

const (
	timeout = 30 * time.Second // of one request, a package included
	maxJSON = 8 << 20
)

// New makes a client of the registry at base, a URL such as http://127.0.0.1:8010;
// nil when base is empty.
func New(base string) *Client {
	if base == "" {
		return nil
	}

	return &Client{base: strings.TrimRight(base, "/"), http: &http.Client{
		Timeout: timeout,
		// Skills come from the registry that is configured, and from nowhere else.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// NotConfigured is the error of every method of a nil Client.
func NotConfigured() error {
	return &domain.Error{
		Kind: domain.Unavailable, Code: skill.CodeNoRegistry,
		Message: "no skill registry is configured (REGISTRY_URL)",
	}
}

// Version is a version of a skill as the registry describes it.
type Version struct {
	Version  string `json:"version"`
	Digest   string `json:"digest"`
	Released bool   `json:"released"`
	Yanked   bool   `json:"yanked"`

	// Of one version only.
	Description string         `json:"description"`
	FrontMatter map[string]any `json:"frontmatter"`
	Files       []struct {
		Path string `json:"path"`
		Size int64  `json:"size"`
	} `json:"files"`
}

// Versions lists the versions of a skill.
func (c *Client) Versions(ctx context.Context, org, name string) ([]Version, error) {
	data, _, err := c.get(ctx, skillPath(org, name)+"/versions", maxJSON)
	if err != nil {
		return nil, noSkill(err)
	}
	// The list comes bare, or as other lists are.
	var list struct {
		Items []Version `json:"items"`
	}
	if err := json.Unmarshal(data, &list); err != nil {
		if json.Unmarshal(data, &list.Items) != nil {
			return nil, misunderstood(err)
		}
	}

	return list.Items, nil
}

// Version describes one version.
func (c *Client) Version(ctx context.Context, org, name, version string) (v Version, err error) {
	data, _, err := c.get(ctx, skillPath(org, name)+"/versions/"+url.PathEscape(version), maxJSON)
	if err == nil {
		if err := json.Unmarshal(data, &v); err != nil {
			return v, misunderstood(err)
		}
	}

	return v, noSkill(err)
}

// Download fetches the package of a version, and the digest that the registry
// names it by.
func (c *Client) Download(ctx context.Context, org, name, version string) (archive []byte, digest string, err error) {
	query := "?" + url.Values{"version": {version}}.Encode()

	archive, header, err := c.get(ctx, skillPath(org, name)+"/download"+query, safezip.SkillPackage.Archive)
	if errors.Is(err, errLargeAnswer) {
		err = domain.Newf(domain.TooLarge, "invalid_skill_archive", "the package is larger than %d bytes", safezip.SkillPackage.Archive)
	}

	return archive, strings.Trim(strings.TrimPrefix(header.Get("ETag"), "W/"), `"`), noSkill(err)
}

func skillPath(org, name string) string {
	return "/skills/" + url.PathEscape(org) + "/" + url.PathEscape(name)
}

var errLargeAnswer = errors.New("it is too large")

// get makes one request; the answer has at most limit bytes.
func (c *Client) get(ctx context.Context, path string, limit int64) ([]byte, http.Header, error) {
	if c == nil {
		return nil, http.Header{}, NotConfigured()
	}

	if leads(path) {
		return nil, http.Header{}, skillNotFound()
	}

	request, err := http.NewRequestWithContext(ctx, http.MethodGet, c.base+path, nil)
	if err != nil {
		return nil, http.Header{}, fmt.Errorf("ask the skill registry: %w", err)
	}

	answer, err := c.http.Do(request)
	if err != nil {
		return nil, http.Header{}, domain.Unavailablef("the skill registry", err)
	}
	defer answer.Body.Close()

	if answer.StatusCode != http.StatusOK {
		return nil, http.Header{}, c.refused(answer)
	}

	data, err := io.ReadAll(io.LimitReader(answer.Body, limit+1))
	switch {
	case err != nil:
		return nil, http.Header{}, domain.Unavailablef("the skill registry", err)
	case int64(len(data)) > limit:
		return nil, http.Header{}, misunderstood(errLargeAnswer)
	}

	return data, answer.Header, nil
}

// leads reports whether a path holds a name that leads to another one: no skill and no
// resource is called . or .., and escaping does not help against them.
func leads(path string) bool {
	path, _, _ = strings.Cut(path, "?")

	return slices.ContainsFunc(strings.Split(path, "/"), func(name string) bool { return name == "." || name == ".." })
}

func (c *Client) refused(answer *http.Response) error {
	switch code := answer.StatusCode; {
	case code == http.StatusNotFound:
		return skillNotFound()
	case code == http.StatusBadRequest || code == http.StatusUnprocessableEntity:
		return invalid(answer)
	case code == http.StatusTooManyRequests:
		wait, _ := strconv.Atoi(answer.Header.Get("Retry-After"))

		return &domain.Error{
			Kind: domain.RateLimited, Code: "rate_limited", RetryAfter: max(wait, 1),
			Message: "the skill registry asks to wait",
		}
	default:
		return domain.Unavailablef("the skill registry", fmt.Errorf("it answered with status %d", code))
	}
}

func skillNotFound() error {
	return domain.Newf(domain.NotFound, skill.CodeNotFound, "the skill registry has no such skill, or no such version")
}

// invalid is the error of a request with a value that the registry does not take. It names
// the parameter that the registry names.
func invalid(answer *http.Response) error {
	var problem struct {
		Errors []struct {
			Location string `json:"location"`
		} `json:"errors"`
	}

	data, err := io.ReadAll(io.LimitReader(answer.Body, maxJSON))
	if err != nil {
		return domain.Unavailablef("the skill registry", err)
	}

	const most = 64 // bytes of a location

	location := "query"
	understood := json.Unmarshal(data, &problem) == nil

	if understood && len(problem.Errors) > 0 { // a registry may say nothing
		if named := problem.Errors[0].Location; strings.HasPrefix(named, "query.") && len(named) <= most {
			location = named
		}
	}

	return domain.Invalidf(location, "is not accepted by the skill registry")
}

// isInvalid reports whether the registry did not take the values of a request.
func isInvalid(err error) bool {
	e, ok := errors.AsType[*domain.Error](err)
	return ok && e.Kind == domain.Invalid
}

// noSkill says of a skill whose name or version the registry does not take that it does not
// exist.
func noSkill(err error) error {
	if isInvalid(err) {
		return skillNotFound()
	}

	return err
}

func misunderstood(err error) error {
	return domain.Unavailablef("the skill registry", fmt.Errorf("its answer is not understood: %w", err))
}

// Listing is a skill as the registry's list shows it.
type Listing struct {
	Org             string   `json:"org"`
	Name            string   `json:"name"`
	Description     string   `json:"description"`
	Version         string   `json:"version"`
	ReleasedVersion string   `json:"released_version"`
	Score           *float64 `json:"score"`
	Downloads       *int64   `json:"downloads"`
}

// Search asks the registry for skills that match a query. A registry that cannot
// search finds none.
func (c *Client) Search(ctx context.Context, q string, limit int) ([]Listing, error) {
	query := url.Values{"q": {q}, "limit": {strconv.Itoa(limit)}}

	data, _, err := c.get(ctx, "/skills?"+query.Encode(), maxJSON)
	if domain.HasCode(err, skill.CodeNotFound) {
		return nil, nil
	}

	if err != nil {
		return nil, err
	}

	var list struct {
		Items []Listing `json:"items"`
	}
	if err := json.Unmarshal(data, &list); err != nil {
		return nil, misunderstood(err)
	}

	return list.Items, nil
}
