package account

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"time"

	"github.com/gofiber/fiber/v2"

	"everloop/api/httpx"
	"everloop/auth"
	"everloop/domain"
	"everloop/service/accounts"
)

// PreferenceRef is the path of an operation on one preference.
type PreferenceRef struct {
	Key string `path:"key" minLength:"1" maxLength:"255" doc:"The key of the preference; any text." example:"theme"`
}

// profileVersion is the form of a profile that names none.
const profileVersion = 1

// maxProfile bounds a profile, in bytes.
const maxProfile = 256 << 10

// PreferencesAPI keeps settings of front ends.
type PreferencesAPI struct {
	Accounts *accounts.Store
}

// Register adds the operations of the area to the interface.
func (a *PreferencesAPI) Register(r *httpx.Server) {
	httpx.Register(r, httpx.Operation{
		ID: "get-preference", Method: fiber.MethodGet, Path: "/api/user/preferences/{key}", Tag: "User",
		Summary:     "Get the value of a preference",
		Description: "value is null if none was ever stored under the key.",
		Scope:       auth.Unrestricted,
	}, func(ctx context.Context, in *PreferenceRef) (*httpx.Body[preferenceBody], error) {
		value, err := a.Accounts.Preference(ctx, httpx.CallerOf(ctx).User.ID, in.Key)
		return httpx.Answer(preferenceBody{value}, err)
	})
	httpx.Register(r, httpx.Operation{
		ID: "set-preference", Method: fiber.MethodPut, Path: "/api/user/preferences/{key}", Tag: "User",
		Summary: "Set the value of a preference",
		Scope:   auth.Unrestricted,
		Example: `{"value": "dark"}`,
	}, func(ctx context.Context, in *struct {
		PreferenceRef
		Body struct {
			Value string `json:"value" maxLength:"100000" doc:"The value." example:"dark"`
		}
	},
	) (*httpx.Body[preferenceBody], error) {
		value := domain.CleanText(in.Body.Value)
		return httpx.Answer(preferenceBody{&value}, a.Accounts.SetPreference(ctx, httpx.CallerOf(ctx).User.ID, in.Key, value))
	})
	httpx.Register(r, httpx.Operation{
		ID: "get-profile", Method: fiber.MethodGet, Path: "/api/profile", Tag: "User",
		Summary: "Get the caller's front-end settings",
		Scope:   auth.Unrestricted,
	}, func(ctx context.Context, _ *struct{}) (*httpx.Body[map[string]json.RawMessage], error) {
		kept, at, err := a.Accounts.UserProfile(ctx, httpx.CallerOf(ctx).User.ID)
		return httpx.Answer(profileBody(kept, at), err)
	})
	httpx.Register(r, httpx.Operation{
		ID: "set-profile", Method: fiber.MethodPut, Path: "/api/profile", Tag: "User",
		Summary:     "Replace the caller's front-end settings",
		Description: "Any object of at most 256 KB; schema_version defaults to 1, updated_at is set by the service.",
		Scope:       auth.Unrestricted,
		Errors:      httpx.Codes{413: "profile_too_large"},
		Example:     `{"layout": "wide"}`,
	}, a.setProfile)
}

type preferenceBody struct {
	Value *string `json:"value" doc:"The value." example:"dark"`
}

// profileBody shows a profile with its version and time, which are the
// service's words in an object that is otherwise the client's.
func profileBody(profile map[string]json.RawMessage, at time.Time) map[string]json.RawMessage {
	out := map[string]json.RawMessage{"schema_version": json.RawMessage("1"), "updated_at": json.RawMessage("null")}
	maps.Copy(out, profile)

	if !at.IsZero() {
		out["updated_at"], _ = json.Marshal(at.UTC()) // a time of the records can be written
	}

	return out
}

func (a *PreferencesAPI) setProfile(ctx context.Context, in *struct {
	Body map[string]json.RawMessage
},
) (*httpx.Body[map[string]json.RawMessage], error) {
	delete(in.Body, "updated_at")

	size := 0
	for name, value := range in.Body {
		size += len(name) + len(value)
	}

	if size > maxProfile {
		return nil, domain.Newf(domain.TooLarge, "profile_too_large", "the profile holds %d bytes, the limit is %d", size, maxProfile)
	}

	if version, given := in.Body["schema_version"]; given {
		var number int
		if json.Unmarshal(version, &number) != nil || number < profileVersion {
			return nil, domain.Invalidf("body.schema_version", "is a whole number of at least 1")
		}
	}

	profile, err := cleanProfile(in.Body)
	if err != nil {
		return nil, err
	}

	at, err := a.Accounts.SetUserProfile(ctx, httpx.CallerOf(ctx).User.ID, profile)

	return httpx.Answer(profileBody(profile, at), err)
}

// cleanProfile makes every text of the profile fit for the database.
func cleanProfile(profile map[string]json.RawMessage) (map[string]json.RawMessage, error) {
	text, err := json.Marshal(profile)
	if err != nil {
		return nil, err
	}

	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber() // a number stays as it was written

	var free any
	if err := decoder.Decode(&free); err != nil {
		return nil, err
	}

	if text, err = json.Marshal(cleanValue(free)); err != nil {
		return nil, err
	}

	clean := map[string]json.RawMessage{}

	return clean, json.Unmarshal(text, &clean)
}

func cleanValue(v any) any {
	switch v := v.(type) {
	case string:
		return domain.CleanText(v)
	case []any:
		for i := range v {
			v[i] = cleanValue(v[i])
		}

		return v
	case map[string]any:
		out := make(map[string]any, len(v))
		for name, value := range v {
			out[domain.CleanText(name)] = cleanValue(value)
		}

		return out
	default:
		return v
	}
}
