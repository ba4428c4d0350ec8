package release_test

import (
	"encoding/json"
	"os"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"

	"everloop/internal/release"
)

func TestParse_order(t *testing.T) {
	t.Parallel()

	ordered := []string{
		"2608.0.2", "2610.0.0-beta.1", "2610.0.0-beta.2", "2610.0.0-beta.10", "2610.0.0", "v2611.0.0", "2611.0.10", "2611.1.0",
	}
	for i, left := range ordered {
		for j, right := range ordered {
			a, err := release.Parse(left)
			require.NoError(t, err)
			b, err := release.Parse(right)
			require.NoError(t, err)

			switch order := a.Compare(b); {
			case i < j:
				require.Negative(t, order, "%s, %s", left, right)
			case i > j:
				require.Positive(t, order, "%s, %s", left, right)
			default:
				require.Zero(t, order)
			}
		}
	}
}

func TestParse_rejects(t *testing.T) {
	t.Parallel()

	for _, text := range []string{
		"", "2611", "2611.0", "2611.0.0.0", "2611.0.0-beta", "2611.0.0-beta.0", "2611.0.0-rc.1", "2611.0.x", "latest", "vv2611.0.0",
	} {
		_, err := release.Parse(text)
		require.ErrorContains(t, err, "must have three numbers", text)
	}
}

// The SDKs are released with the service, under the same version.
func TestVersion_isThatOfTheSDKs(t *testing.T) {
	t.Parallel()

	own, err := release.Parse(release.Version)
	require.NoError(t, err)

	least, err := release.Parse(release.MinSDK)
	require.NoError(t, err)
	require.LessOrEqual(t, least.Compare(own), 0, "no SDK of this release speaks its own protocol")

	text, err := os.ReadFile("../../sdk/js/package.json")
	require.NoError(t, err)

	var js struct{ Version string }
	require.NoError(t, json.Unmarshal(text, &js))
	require.Equal(t, release.Version, js.Version)

	text, err = os.ReadFile("../../sdk/python/pyproject.toml")
	require.NoError(t, err)

	python := regexp.MustCompile(`(?m)^version = "(.*)"$`).FindSubmatch(text)
	require.NotNil(t, python)
	require.Equal(t, release.Version, string(python[1]))
}

func TestImageTag(t *testing.T) {
	t.Parallel()
	require.Equal(t, "v2611.0.0-beta.2", release.ImageTag("2611.0.0-beta.2"))
	require.Equal(t, "v2611.0.0", release.ImageTag("v2611.0.0"))
}

func TestCompatible(t *testing.T) {
	t.Parallel()

	for _, component := range []string{"identity", "registry", "gateway", "git", "desktop"} {
		require.NoError(t, release.Compatible(component, release.Version), component)
		require.ErrorContains(t, release.Compatible(component, "2608.0.2"), "is too old", component)
		require.ErrorContains(t, release.Compatible(component, "2611.0.0-beta.1"), "needs at least 2611.0.0", component)
		require.Error(t, release.Compatible(component, "something"), component)
	}

	require.NoError(t, release.Compatible("mock", "1"))
}
