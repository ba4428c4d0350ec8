package toolservers_test

import (
	"encoding/json"
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"everloop/domain"
	"everloop/domain/toolserver"
	"everloop/infra/postgres/pgtest"
	"everloop/infra/secrets"
	"everloop/service/toolservers"
)

func TestPinMCPTools(t *testing.T) {
	t.Parallel()

	db := pgtest.Open(t)
	box, err := secrets.NewBox("a key of the tests, long enough to be one")
	require.NoError(t, err)

	store := toolservers.New(db.DB, box)
	root := pgtest.User(t, db, "root", true)

	newServer := func(name string) toolserver.Record {
		server, err := store.CreateMCPServer(t.Context(), toolserver.Record{
			Scope: toolserver.OfService, OwnerID: root.ID,
			MCPServer: domain.MCPServer{Name: name, Transport: toolserver.HTTP, URL: "https://a.example/mcp", TimeoutS: 60, Enabled: true},
		})
		require.NoError(t, err)

		return server
	}
	tool := func(name, description string) toolserver.Tool {
		schema := json.RawMessage(`{"properties":{"b":{"maximum":1e3},"a":{}},"type":"object"}`)
		return toolserver.Tool{Name: name, Description: description, Schema: schema}
	}
	states := func(server toolserver.Record) map[string]string {
		pins, err := store.MCPTools(t.Context(), server.ID)
		require.NoError(t, err)

		out := map[string]string{}
		for _, pin := range pins {
			out[pin.Tool] = fmt.Sprint(pin.Accepted != nil, pin.Proposed != nil)
		}

		return out
	}

	t.Run("concurrent first lists pin one of them", func(t *testing.T) {
		t.Parallel()

		server := newServer("concurrent")

		var all sync.WaitGroup

		for i := range 8 {
			all.Go(func() {
				_, err := store.PinMCPTools(t.Context(), server, []toolserver.Tool{tool("read", fmt.Sprint(i))})
				if err != nil {
					t.Error(err)
				}
			})
		}

		all.Wait()
		require.Equal(t, map[string]string{"read": "true true"}, states(server), "the others are proposed")
	})

	t.Run("the same list again changes nothing", func(t *testing.T) {
		t.Parallel()

		server := newServer("same")

		for range 3 {
			pins, err := store.PinMCPTools(t.Context(), server, []toolserver.Tool{tool("read", "<a> & \"b\" \u2028"), tool("list", "")})
			require.NoError(t, err)
			require.Len(t, pins, 2)
			require.Equal(t, map[string]string{"read": "true false", "list": "true false"}, states(server))
		}
	})

	t.Run("new tools that vanish leave nothing", func(t *testing.T) {
		t.Parallel()

		server := newServer("vanish")

		for i := range 3 {
			_, err := store.PinMCPTools(t.Context(), server, []toolserver.Tool{tool("read", "Reads."), tool(fmt.Sprint("new-", i), "")})
			require.NoError(t, err)
		}

		require.Equal(t, map[string]string{"read": "true false", "new-0": "true false", "new-2": "false true"}, states(server))

		_, err := store.PinMCPTools(t.Context(), server, []toolserver.Tool{tool("read", "Reads.")})
		require.NoError(t, err)
		require.Equal(t, map[string]string{"read": "true false", "new-0": "true false"}, states(server))
	})

	t.Run("the end of a server removes its tools", func(t *testing.T) {
		t.Parallel()

		server := newServer("ends")
		_, err := store.PinMCPTools(t.Context(), server, []toolserver.Tool{tool("read", "")})
		require.NoError(t, err)
		require.NoError(t, store.DeleteMCPServer(t.Context(), root, server.ID, func(toolserver.Record) error { return nil }))
		require.Empty(t, states(server))
	})
}
