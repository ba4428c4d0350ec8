package api_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// pagedLists are lists that the specification pages, that have a cursor, or whose
// entries are too heavy for a whole list.
var pagedLists = []string{
	"/api/admin/audit",
	"/api/admin/runs",
	"/api/inbox",
	"/api/memories",
	"/api/prod_workspaces/{workspace_id}/issues/grouped",
	"/api/prod_workspaces/{workspace_id}/issues/query",
	"/api/prod_workspaces/{workspace_id}/issues/{issue_id}/timeline",
	"/api/registry/resources",
	"/api/registry/scenarios",
	"/api/sessions",
	"/api/sessions/{session_id}/messages",
	"/api/skills/search",
	"/api/webhooks/{id}/deliveries",
}

// TestLists_withoutLimit: where the specification gives a list no pages, a client that
// names no limit gets as much as a client can get.
func TestLists_withoutLimit(t *testing.T) {
	t.Parallel()
	w := newWorld(t)

	var doc struct {
		Paths map[string]map[string]struct {
			Parameters []struct {
				Name   string
				Schema struct{ Default, Maximum json.RawMessage }
			}
		}
	}
	require.NoError(t, json.Unmarshal([]byte(w.do("GET", "/api/openapi.json", "", "").text), &doc))

	for path, item := range doc.Paths {
		if slices.Contains(pagedLists, path) || !strings.Contains(specified, "GET "+path+"\n") {
			continue
		}

		for _, parameter := range item["get"].Parameters {
			if parameter.Name == "limit" {
				assert.JSONEq(t, string(parameter.Schema.Maximum), string(parameter.Schema.Default), path)
			}
		}
	}
}
