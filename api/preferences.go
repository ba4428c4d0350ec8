package api

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"time"

	"github.com/gofiber/fiber/v2"

	"everloop/auth"
	"everloop/domain"
)

// UserSettings are what a front end keeps for a user.
type UserSettings interface {
	// Preference is nil when nothing is kept under the key.
	Preference(ctx context.Context, userID, key string) (*string, error)
	SetPreference(ctx context.Context, userID, key, value string) error
	UserProfile(ctx context.Context, userID string) (profile map[string]json.RawMessage, at time.Time, err error)
	SetUserProfile(ctx context.Context, userID string, profile map[string]json.RawMessage) (at time.Time, err error)
}

// PreferenceRef is the path of an operation on one preference.
type PreferenceRef struct {
	Key string `path:"key" minLength:"1" maxLength:"255"`
}

// profileVersion is the form of a profile that names none.
const profileVersion = 1

// maxProfile bounds a profile, in bytes.
const maxProfile = 256 << 10

func (s *server) preferenceRoutes() {
	const preference, profile, tag = "/api/user/preferences/{key}", "/api/profile", "User"
	add(s, operation{
		id: "get-preference", method: fiber.MethodGet, path: preference, tag: tag, summary: "What the caller keeps under a key", scope: auth.Unrestricted,
	}, func(ctx context.Context, in *PreferenceRef) (*body[preferenceBody], error) {
		value, err := s.UserSettings.Preference(ctx, callerOf(ctx).User.ID, in.Key)
		return answer(preferenceBody{value}, err)
	})
	add(s, operation{
		id: "set-preference", method: fiber.MethodPut, path: preference, tag: tag, summary: "Keep a value under a key", scope: auth.Unrestricted,
	}, func(ctx context.Context, in *struct {
		PreferenceRef
		Body struct {
			Value string `json:"value" maxLength:"100000"`
		}
	},
	) (*body[preferenceBody], error) {
		value := domain.CleanText(in.Body.Value)
		return answer(preferenceBody{&value}, s.UserSettings.SetPreference(ctx, callerOf(ctx).User.ID, in.Key, value))
	})
	add(s, operation{
		id: "get-profile", method: fiber.MethodGet, path: profile, tag: tag, summary: "The front end's own settings of the caller", scope: auth.Unrestricted,
	}, func(ctx context.Context, _ *struct{}) (*body[map[string]json.RawMessage], error) {
		kept, at, err := s.UserSettings.UserProfile(ctx, callerOf(ctx).User.ID)
		return answer(profileBody(kept, at), err)
	})
	add(s, operation{
		id: "set-profile", method: fiber.MethodPut, path: profile, tag: tag, summary: "Replace the front end's own settings of the caller", scope: auth.Unrestricted,
	}, s.setProfile)
}

type preferenceBody struct {
	Value *string `json:"value"`
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

func (s *server) setProfile(ctx context.Context, in *struct {
	Body map[string]json.RawMessage
},
) (*body[map[string]json.RawMessage], error) {
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
	at, err := s.UserSettings.SetUserProfile(ctx, callerOf(ctx).User.ID, profile)
	return answer(profileBody(profile, at), err)
}

// cleanProfile makes every text of the profile fit for the records.
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
