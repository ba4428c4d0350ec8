//go:build linux

package skills

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"

	"everloop/domain"
	"everloop/internal/safezip"
)

// Registry asks the skill registry (companion-components.md "Skill registry").
// A nil Registry is one that is not configured.
type Registry struct {
	base     string
	client   *http.Client
	logger   *slog.Logger
	releases *memo[string, release]
}

const (
	registryTimeout = 30 * time.Second // of one request, a package included
	maxRegistryJSON = 8 << 20
)

// NewRegistry makes a client of the registry at base, a URL as
// http://127.0.0.1:8010; nil when base is empty.
func NewRegistry(base string, logger *slog.Logger) *Registry {
	if base == "" {
		return nil
	}
	return &Registry{
		base: strings.TrimRight(base, "/"), logger: logger,
		client:   &http.Client{Timeout: registryTimeout},
		releases: newMemo[string, release](4096, releasesFor),
	}
}

func notConfigured() error {
	return &domain.Error{
		Kind: domain.Unavailable, Code: domain.CodeNoRegistry,
		Message: "no skill registry is configured (REGISTRY_URL)",
	}
}

// registryVersion is a version of a skill as the registry tells of it.
type registryVersion struct {
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

// versions lists the versions of a skill.
func (r *Registry) versions(ctx context.Context, org, name string) ([]registryVersion, error) {
	data, _, err := r.get(ctx, skillPath(org, name)+"/versions", maxRegistryJSON)
	if err != nil {
		return nil, err
	}
	// The specification says "list of versions": bare, or as other lists are.
	var list struct {
		Items []registryVersion `json:"items"`
	}
	if err := json.Unmarshal(data, &list); err != nil {
		if json.Unmarshal(data, &list.Items) != nil {
			return nil, misunderstood(err)
		}
	}
	return list.Items, nil
}

// version tells of one version.
func (r *Registry) version(ctx context.Context, org, name, version string) (v registryVersion, err error) {
	data, _, err := r.get(ctx, skillPath(org, name)+"/versions/"+url.PathEscape(version), maxRegistryJSON)
	if err == nil {
		if err := json.Unmarshal(data, &v); err != nil {
			return v, misunderstood(err)
		}
	}
	return v, err
}

// download fetches the package of a version, and the digest that the registry
// names it by.
func (r *Registry) download(ctx context.Context, org, name, version string) (archive []byte, digest string, err error) {
	query := "?" + url.Values{"version": {version}}.Encode()
	archive, header, err := r.get(ctx, skillPath(org, name)+"/download"+query, safezip.SkillPackage.Archive)
	if errors.Is(err, errLargeAnswer) {
		err = domain.Newf(domain.TooLarge, "invalid_skill_archive", "the package is larger than %d bytes", safezip.SkillPackage.Archive)
	}
	return archive, strings.Trim(strings.TrimPrefix(header.Get("ETag"), "W/"), `"`), err
}

func skillPath(org, name string) string {
	return "/skills/" + url.PathEscape(org) + "/" + url.PathEscape(name)
}

var errLargeAnswer = errors.New("it is too large")

// get makes one request; the answer has at most limit bytes.
func (r *Registry) get(ctx context.Context, path string, limit int64) ([]byte, http.Header, error) {
	if r == nil {
		return nil, http.Header{}, notConfigured()
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, r.base+path, nil)
	if err != nil {
		return nil, http.Header{}, fmt.Errorf("ask the skill registry: %w", err)
	}
	answer, err := r.client.Do(request)
	if err != nil {
		return nil, http.Header{}, domain.Unavailablef("the skill registry", err)
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return nil, http.Header{}, r.refused(answer)
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

func (r *Registry) refused(answer *http.Response) error {
	switch code := answer.StatusCode; {
	case code == http.StatusNotFound:
		return domain.Newf(domain.NotFound, domain.CodeSkillNotFound, "the skill registry has no such skill, or no such version")
	case code == http.StatusTooManyRequests:
		wait, _ := strconv.Atoi(answer.Header.Get("Retry-After"))
		return &domain.Error{Kind: domain.RateLimited, Code: "rate_limited", Message: "the skill registry asks to wait", RetryAfter: max(wait, 1)}
	default:
		return domain.Unavailablef("the skill registry", fmt.Errorf("it answered with status %d", code))
	}
}

func misunderstood(err error) error {
	return domain.Unavailablef("the skill registry", fmt.Errorf("its answer is not understood: %w", err))
}

var (
	orgForm     = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$`)
	versionForm = regexp.MustCompile(`^(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-[0-9A-Za-z.-]+)?(\+[0-9A-Za-z.-]+)?$`)
)

// registrySkill is a skill as the registry's list shows it.
type registrySkill struct {
	Org             string   `json:"org"`
	Name            string   `json:"name"`
	Description     string   `json:"description"`
	Version         string   `json:"version"`
	ReleasedVersion string   `json:"released_version"`
	Score           *float64 `json:"score"`
	Downloads       *int64   `json:"downloads"`
}

// search asks the registry for skills about something. A registry that cannot
// search has none.
func (r *Registry) search(ctx context.Context, q string, limit int) ([]registrySkill, error) {
	query := url.Values{"q": {q}, "limit": {strconv.Itoa(limit)}}
	data, _, err := r.get(ctx, "/skills?"+query.Encode(), maxRegistryJSON)
	if domain.HasCode(err, domain.CodeSkillNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var list struct {
		Items []registrySkill `json:"items"`
	}
	if err := json.Unmarshal(data, &list); err != nil {
		return nil, misunderstood(err)
	}
	return list.Items, nil
}
