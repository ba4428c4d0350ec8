package toolserver_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"everloop/domain"
	"everloop/domain/toolserver"
)

func TestASessionUsesTheClosestServersFirst(t *testing.T) {
	t.Parallel()

	var servers []toolserver.Record

	add := func(scope toolserver.Scope, n int, enabled bool) {
		for i := range n {
			servers = append(servers, toolserver.Record{
				Scope: scope, MCPServer: domain.MCPServer{Name: fmt.Sprintf("%c%02d", 'z'-scope[1], i), Enabled: enabled},
			})
		}
	}
	add(toolserver.OfService, 20, true)
	add(toolserver.OfSession, 3, false)
	add(toolserver.OfSolution, 10, true)

	used, left := toolserver.Used(servers)
	require.Len(t, used, 30)
	require.Empty(t, left)

	add(toolserver.OfSession, 4, true)

	used, left = toolserver.Used(servers)
	require.Len(t, used, toolserver.MaxOfSession)
	require.Len(t, left, 2)
	require.Equal(t, toolserver.OfService, left[0].Scope)
	require.Equal(t, servers[18].Name, left[0].Name)

	for i := range len(used) - 1 {
		require.LessOrEqual(t, used[i].Name, used[i+1].Name)
	}
}
