package app

import (
	"testing"

	"github.com/stretchr/testify/require"

	"everloop/domain"
)

func TestPriceSettings(t *testing.T) {
	t.Parallel()

	read, written := 0.05, 0.6
	s := priceSettings{ModelPrices: []string{"m-1=0.5/1.5", "org/m=2 = 1/2/0.05/0.6", "free=0/0"}}
	prices, err := s.prices()
	require.NoError(t, err)
	require.Equal(t, map[string]domain.Price{
		"m-1": {Input: 0.5, Output: 1.5}, "org/m=2": {Input: 1, Output: 2, CacheRead: &read, CacheWrite: &written}, "free": {},
	}, prices)

	for _, bad := range []string{"", "m", "m=", "=1/2", "m=1", "m=1/2/3", "m=1/x", "m=-1/2", "m=NaN/1", "m=1/2/3/1e9"} {
		s := priceSettings{ModelPrices: []string{bad}}
		require.ErrorContains(t, s.check(), "MODEL_PRICES", bad)
	}
}
