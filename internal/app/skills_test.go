package app

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSkillSettings_partners(t *testing.T) {
	t.Parallel()

	s := skillSettings{Partners: []string{"acme=https://skills.acme.example", "labs=http://127.0.0.1:8010/skills"}}
	require.NoError(t, s.check())
	partners, err := s.partners()
	require.NoError(t, err)
	require.Equal(t, map[string]string{"acme": "https://skills.acme.example", "labs": "http://127.0.0.1:8010/skills"}, partners)

	for _, bad := range []string{"acme", "=https://a.example", "acme=ftp://a.example", "../x=https://a.example", "acme="} {
		s := skillSettings{Partners: []string{bad}}
		require.ErrorContains(t, s.check(), "PARTNER_REGISTRIES", bad)
	}

	s.Partners = append(s.Partners, "acme=https://other.example")
	require.ErrorContains(t, s.check(), "each organisation once")
	require.ErrorContains(t, (&skillSettings{RegistryURL: "x"}).check(), "REGISTRY_URL")
}
