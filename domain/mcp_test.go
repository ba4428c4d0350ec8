package domain_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"everloop/domain"
)

func TestASessionUsesTheClosestServersFirst(t *testing.T) {
	t.Parallel()

	var servers []domain.MCPServerRecord

	add := func(scope domain.MCPScope, n int, enabled bool) {
		for i := range n {
			servers = append(servers, domain.MCPServerRecord{
				Scope: scope, MCPServer: domain.MCPServer{Name: fmt.Sprintf("%c%02d", 'z'-scope[1], i), Enabled: enabled},
			})
		}
	}
	add(domain.MCPOfService, 20, true)
	add(domain.MCPOfSession, 3, false)
	add(domain.MCPOfSolution, 10, true)

	used, left := domain.UsedMCPServers(servers)
	require.Len(t, used, 30)
	require.Empty(t, left)

	add(domain.MCPOfSession, 4, true)

	used, left = domain.UsedMCPServers(servers)
	require.Len(t, used, domain.MaxSessionMCPServers)
	require.Len(t, left, 2)
	require.Equal(t, domain.MCPOfService, left[0].Scope)
	require.Equal(t, servers[18].Name, left[0].Name)

	for i := range len(used) - 1 {
		require.LessOrEqual(t, used[i].Name, used[i+1].Name)
	}
}
