package mock_test

import (
	"net/http/httptest"
	"testing"

	"everloop/companions/mock"
	"everloop/domain"
	"everloop/infra/model"
)

// BenchmarkTokens is the ceiling that the mock and the client set together for
// benchmarks of the whole service.
func BenchmarkTokens(b *testing.B) {
	s := httptest.NewServer(mock.New(mock.Config{}).Handler())
	defer s.Close()

	c := model.New(model.Config{BaseURL: s.URL})

	p := prompt(nil, script(`{"steps":[{"tokens":2000}]}`))
	for b.Loop() {
		if _, err := c.Stream(b.Context(), p, func(domain.Delta) error { return nil }); err != nil {
			b.Fatal(err)
		}
	}

	b.ReportMetric(float64(b.N*2000)/b.Elapsed().Seconds(), "tokens/s")
}

// BenchmarkCall is one short model call with a tool call.
func BenchmarkCall(b *testing.B) {
	s := httptest.NewServer(mock.New(mock.Config{}).Handler())
	defer s.Close()

	c := model.New(model.Config{BaseURL: s.URL})

	p := prompt(specs(allTools...), script(`{"loop":{"n":50,"call":{"name":"Bash","arguments":{"command":"true"}}}}`))
	for b.Loop() {
		if _, err := c.Stream(b.Context(), p, nil); err != nil {
			b.Fatal(err)
		}
	}
}
