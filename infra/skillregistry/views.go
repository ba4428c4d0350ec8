package skillregistry

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/url"
	"strconv"

	"everloop/domain"
	"everloop/domain/skill"
)

// Views of the registry, below /registry of its address: what it holds besides
// the packages themselves.

// Resources lists what the registry keeps, and how many there are in all.
func (c *Client) Resources(ctx context.Context, q skill.RegistryQuery) ([]skill.RegistryResource, int, error) {
	query := url.Values{"limit": {strconv.Itoa(q.Limit)}, "offset": {strconv.Itoa(q.Offset)}}
	for name, value := range map[string]string{"type": q.Type, "subtype": q.Subtype} {
		if value != "" {
			query.Set(name, value)
		}
	}

	var page struct {
		Items []skill.RegistryResource `json:"items"`
		Total int                      `json:"total"`
	}

	err := notOffered(c.view(ctx, "/resources?"+query.Encode(), &page))
	for i := range page.Items {
		page.Items[i].Tags = orEmpty(page.Items[i].Tags)
	}

	return atMost(page.Items, q.Limit), max(page.Total, len(page.Items)), err
}

// Resource returns one resource.
func (c *Client) Resource(ctx context.Context, id string) (resource skill.RegistryResource, err error) {
	err = c.view(ctx, "/resources/"+url.PathEscape(id), &resource)
	resource.Tags = orEmpty(resource.Tags)

	return resource, noSuch(err, "resource", id)
}

// Organizations lists who publishes skills.
func (c *Client) Organizations(ctx context.Context) ([]skill.RegistryOrganization, error) {
	return items[skill.RegistryOrganization](ctx, c, "/organizations")
}

// Templates lists the forms of the registry.
func (c *Client) Templates(ctx context.Context) ([]skill.RegistryTemplate, error) {
	return items[skill.RegistryTemplate](ctx, c, "/templates")
}

// Template returns one form; driver picks one of several variants.
func (c *Client) Template(ctx context.Context, typeKey, subtype, driver string) (template skill.RegistryTemplate, err error) {
	path := "/templates/" + url.PathEscape(typeKey) + "/" + url.PathEscape(subtype)
	if driver != "" {
		path += "?" + url.Values{"driver": {driver}}.Encode()
	}

	err = c.view(ctx, path, &template)

	return template, noSuch(err, "template", typeKey+"/"+subtype)
}

// Scenarios lists bundles of resources.
func (c *Client) Scenarios(ctx context.Context, limit int) ([]skill.RegistryScenario, error) {
	found, err := items[skill.RegistryScenario](ctx, c, "/scenarios?limit="+strconv.Itoa(limit))
	for i := range found {
		found[i].Tags, found[i].ResourceIDs = orEmpty(found[i].Tags), orEmpty(found[i].ResourceIDs)
	}

	return atMost(found, limit), err
}

// StoreStats counts what the registry holds.
func (c *Client) StoreStats(ctx context.Context) (stats skill.RegistryStats, err error) {
	err = notOffered(c.view(ctx, "/skill-store/stats", &stats))
	return stats, err
}

func items[T any](ctx context.Context, c *Client, path string) ([]T, error) {
	var list struct {
		Items []T `json:"items"`
	}

	err := notOffered(c.view(ctx, path, &list))

	return list.Items, err
}

func (c *Client) view(ctx context.Context, path string, into any) error {
	data, _, err := c.get(ctx, "/registry"+path, maxJSON)
	if err != nil {
		return err
	}

	if bytes.Equal(bytes.TrimSpace(data), []byte("null")) {
		return misunderstood(errors.New("it is null"))
	}

	if err := json.Unmarshal(data, into); err != nil {
		return misunderstood(err)
	}

	return nil
}

// notOffered says of a list that the registry does not know what it is asked for:
// a registry may keep packages and nothing else.
func notOffered(err error) error {
	if domain.HasCode(err, skill.CodeNotFound) {
		return domain.Unavailablef("this view of the skill registry", errors.New("the registry does not offer it"))
	}

	return err
}

// noSuch names what the registry does not have, as it does not have anything by a name that
// it does not take.
func noSuch(err error, kind, id string) error {
	if domain.HasCode(err, skill.CodeNotFound) || isInvalid(err) {
		return domain.Newf(domain.NotFound, kind+"_not_found", "the skill registry has no %s %s", kind, id)
	}

	return err
}

// atMost keeps to a limit that a registry may not have kept to.
func atMost[T any](list []T, limit int) []T {
	return list[:min(len(list), limit)]
}

func orEmpty[T any](list []T) []T {
	if list == nil {
		return []T{}
	}

	return list
}
