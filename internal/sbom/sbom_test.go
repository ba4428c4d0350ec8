package sbom_test

import (
	"bytes"
	"encoding/json"
	"runtime/debug"
	"testing"

	"github.com/stretchr/testify/require"

	"everloop/internal/sbom"
)

func TestWrite(t *testing.T) {
	t.Parallel()

	build := &debug.BuildInfo{GoVersion: "go1.26.8", Deps: []*debug.Module{
		{Path: "github.com/a/b", Version: "v1.2.3", Sum: "h1:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAE="},
		{Path: "github.com/c/d", Version: "v1.0.0", Replace: &debug.Module{Path: "github.com/e/f", Version: "v2.0.0+incompatible"}},
		{Path: "github.com/g/h", Version: "v1.0.0", Replace: &debug.Module{Path: "./build/omitted/h", Version: "(devel)"}},
	}}

	var out, again bytes.Buffer
	require.NoError(t, sbom.Write(&out, "everloop", "2611.0.0", build))
	require.NoError(t, sbom.Write(&again, "everloop", "2611.0.0", build))
	require.Equal(t, out.String(), again.String(), "equal programs have equal documents")

	var doc struct {
		Format       string `json:"bomFormat"`
		SerialNumber string
		Metadata     struct {
			Component struct{ Name, Version string }
		}
		Components []struct {
			Name, Version, PURL string
			Hashes              []struct{ Alg, Content string }
		}
	}
	require.NoError(t, json.Unmarshal(out.Bytes(), &doc))
	require.Equal(t, "CycloneDX", doc.Format)
	require.Regexp(t, `^urn:uuid:[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`, doc.SerialNumber)
	require.Equal(t, "2611.0.0", doc.Metadata.Component.Version)
	require.Len(t, doc.Components, 3)
	require.Equal(t, "1.26.8", doc.Components[0].Version)
	require.Equal(t, "pkg:golang/github.com/a/b@v1.2.3", doc.Components[1].PURL)
	require.Equal(t, "0000000000000000000000000000000000000000000000000000000000000001", doc.Components[1].Hashes[0].Content)
	require.Equal(t, "pkg:golang/github.com/e/f@v2.0.0+incompatible", doc.Components[2].PURL)
}
