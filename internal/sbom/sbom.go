// Package sbom lists the modules of a Go program in the CycloneDX format. It must not depend on
// their purpose.
package sbom

import (
	"cmp"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"runtime/debug"
	"strings"
)

// document is the used part of CycloneDX 1.5.
type document struct {
	Format       string      `json:"bomFormat"`
	Spec         string      `json:"specVersion"`
	SerialNumber string      `json:"serialNumber"`
	Version      int         `json:"version"`
	Metadata     metadata    `json:"metadata"`
	Components   []component `json:"components"`
}

type metadata struct {
	Component component `json:"component"`
}

type component struct {
	Type    string `json:"type"`
	Name    string `json:"name"`
	Version string `json:"version"`
	PURL    string `json:"purl"`
	Ref     string `json:"bom-ref"`
	Hashes  []hash `json:"hashes,omitempty"`
}

type hash struct {
	Algorithm string `json:"alg"`
	Content   string `json:"content"`
}

// Write writes the modules that are linked into a program, and the Go standard library.
func Write(w io.Writer, name, version string, build *debug.BuildInfo) error {
	doc := document{
		Format: "CycloneDX", Spec: "1.5", Version: 1,
		Metadata:   metadata{Component: component{Type: "application", Name: name, Version: version}},
		Components: []component{library("std", strings.TrimPrefix(build.GoVersion, "go"), "")},
	}
	doc.Metadata.Component.PURL = purl(name, version)
	doc.Metadata.Component.Ref = doc.Metadata.Component.PURL

	for _, module := range build.Deps {
		module = cmp.Or(module.Replace, module)
		if strings.HasPrefix(module.Path, "./") { // a folder of this repository
			continue
		}

		doc.Components = append(doc.Components, library(module.Path, module.Version, module.Sum))
	}

	// Equal programs have equal documents.
	text, err := json.Marshal(doc)
	if err != nil {
		return err
	}

	sum := sha256.Sum256(text)
	sum[6], sum[8] = sum[6]&0x0f|0x80, sum[8]&0x3f|0x80 // a UUID of version 8
	doc.SerialNumber = fmt.Sprintf("urn:uuid:%x-%x-%x-%x-%x", sum[:4], sum[4:6], sum[6:8], sum[8:10], sum[10:16])

	out := json.NewEncoder(w)
	out.SetIndent("", "  ")

	return out.Encode(doc)
}

func library(path, version, sum string) component {
	c := component{Type: "library", Name: path, Version: version, PURL: purl(path, version)}
	c.Ref = c.PURL

	// h1 is a SHA-256 over the names and contents of the module's files.
	if encoded, ok := strings.CutPrefix(sum, "h1:"); ok {
		if digest, err := base64.StdEncoding.DecodeString(encoded); err == nil {
			c.Hashes = []hash{{Algorithm: "SHA-256", Content: hex.EncodeToString(digest)}}
		}
	}

	return c
}

// purl returns the package URL of a Go module.
func purl(path, version string) string {
	return "pkg:golang/" + path + "@" + url.PathEscape(version)
}
