package model_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"everloop/domain"
	"everloop/infra/model"
)

// BenchmarkStream reads 2,000 tokens that a server on the same machine sends as
// fast as it can. The cost of a token must stay far below 50 µs (20,000
// tokens a second) of one core.
func BenchmarkStream(b *testing.B) {
	const tokens = 2000

	line := delta(`{"content":"word "}`) + "\n\n"

	for _, flush := range []bool{false, true} {
		b.Run(fmt.Sprintf("flushed=%t", flush), func(b *testing.B) {
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				raw := []byte(line)
				for range tokens {
					_, _ = w.Write(raw)
					if flush {
						w.(http.Flusher).Flush()
					}
				}

				fmt.Fprint(w, strings.Join([]string{finish("stop"), usage, done, ""}, "\n\n"))
			}))
			defer s.Close()

			c := model.New(model.Config{BaseURL: s.URL})

			b.ReportAllocs()

			for b.Loop() {
				seen := 0

				_, err := c.Stream(b.Context(), ask(), func(domain.Delta) error {
					seen++
					return nil
				})
				if err != nil || seen != tokens {
					b.Fatal(seen, err)
				}
			}

			b.ReportMetric(float64(b.N*tokens)/b.Elapsed().Seconds(), "tokens/s")
		})
	}
}
