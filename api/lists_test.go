package api_test

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// pagedLists are lists with a documented page size or a cursor, and lists whose
// entries are too large for a whole list.
var pagedLists = []string{
	"/api/admin/audit",
	"/api/admin/runs",
	"/api/admin/usage",
	"/api/dag-runs",
	"/api/inbox",
	"/api/memories",
	"/api/prod_solution/dag/{prod_solution_id}/runs/{run_id}/nodes/{node_id}/items",
	"/api/prod_workspaces/{workspace_id}/issues/grouped",
	"/api/prod_workspaces/{workspace_id}/issues/query",
	"/api/prod_workspaces/{workspace_id}/issues/{issue_id}/timeline",
	"/api/registry/resources",
	"/api/registry/scenarios",
	"/api/sessions",
	"/api/sessions/{session_id}/checkpoints/{checkpoint_id}/changes",
	"/api/sessions/{session_id}/messages",
	"/api/skills/search",
	"/api/user/usage",
	"/api/triggers/{id}/deliveries",
	"/api/webhooks/{id}/deliveries",
}

// TestLists_withoutLimit checks that every other list uses its maximum as the default
// limit: clients that do not page receive the whole list.
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
		if slices.Contains(pagedLists, path) {
			continue
		}

		for _, parameter := range item["get"].Parameters {
			if parameter.Name == "limit" {
				assert.JSONEq(t, string(parameter.Schema.Maximum), string(parameter.Schema.Default), path)
			}
		}
	}
}
