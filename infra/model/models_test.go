package model_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"everloop/domain"
	"everloop/infra/model"
)

const modelList = `{"object":"list","data":[
	{"id":"asr","modalities":["audio"],"context_window":4096},
	{"id":"main","name":"Main model","context_window":131072,"modalities":["text","image"],"aliases":["gpt-x"],
	 "max_output":8192,"reasoning_history":"all","supports":{"tools":true,"thinking":true,"json_schema":false},
	 "price":{"input":2,"output":6}},
	{"id":"vllm","max_model_len":32768,"created":1.5e9},
	{"id":"bare:latest"},
	{"id":""}]}`

// The loaded window counts, not the one that the model was trained with.
func TestModels_windows(t *testing.T) {
	for entry, want := range map[string]int64{
		`{"id":"m","meta":{"n_ctx":8192}}`:                                            8192,
		`{"id":"m","meta":{"n_ctx":8192,"n_ctx_train":131072}}`:                       8192,
		`{"id":"m","meta":{"n_ctx_train":4096}}`:                                      4096,
		`{"id":"m","meta":{"n_ctx_train":1048576}}`:                                   128_000,
		`{"id":"m","max_context_length":32768,"loaded_context_length":4096}`:          4096,
		`{"id":"m","loaded_context_length":"4096"}`:                                   4096,
		`{"id":"m","max_context_length":32768}`:                                       32768,
		`{"id":"m","context_length":8192.0,"meta":null}`:                              8192,
		`{"id":"m","context_window":-1,"max_model_len":null,"meta":"none"}`:           128_000,
		`{"id":"m","context_window":2048,"meta":{"n_ctx":8192},"max_model_len":1024}`: 2048,
	} {
		t.Run(entry, func(t *testing.T) {
			c := serverWith(t, model.Config{}, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintf(w, `{"data":[%s]}`, entry) })

			m, err := c.Resolve(t.Context(), "m")
			require.NoError(t, err)
			require.Equal(t, want, m.ContextWindow)
		})
	}
}

func TestModels(t *testing.T) {
	var calls atomic.Int32

	c := serverWith(t, model.Config{ContextWindow: 64_000, ListTTL: time.Hour}, func(w http.ResponseWriter, r *http.Request) {
		calls.Add(1)
		require.Equal(t, "/v1/models", r.URL.Path)
		fmt.Fprint(w, modelList)
	})

	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			list, err := c.Models(t.Context())
			if err != nil || len(list) != 4 {
				t.Errorf("got %v, %v", list, err)
			}
		})
	}

	wg.Wait()

	list, err := c.Models(t.Context())
	require.NoError(t, err)

	unsaid := domain.ModelSupport{Tools: true, Thinking: true, JSONSchema: true}
	require.Equal(t, []domain.Model{
		{
			ID:               "asr",
			Name:             "asr",
			ContextWindow:    4096,
			Modalities:       []string{"audio"},
			Supports:         unsaid,
			ReasoningHistory: domain.ReasoningToolLoop,
		},
		{
			ID: "main", Name: "Main model", ContextWindow: 131072, MaxOutput: 8192, Modalities: []string{"text", "image"},
			Supports: domain.ModelSupport{Tools: true, Thinking: true}, Price: &domain.Price{Input: 2, Output: 6},
			ReasoningHistory: domain.ReasoningAll,
		},
		{
			ID:               "vllm",
			Name:             "vllm",
			ContextWindow:    32768,
			Supports:         unsaid,
			ReasoningHistory: domain.ReasoningToolLoop,
		},
		{
			ID:               "bare:latest",
			Name:             "bare:latest",
			ContextWindow:    64_000,
			Supports:         unsaid,
			ReasoningHistory: domain.ReasoningToolLoop,
		},
	}, list)
	require.EqualValues(t, 1, calls.Load(), "the list is cached and shared")
}

func TestModels_prices(t *testing.T) {
	c := serverWith(t, model.Config{Prices: map[string]domain.Price{"own": {Input: 1, Output: 2}, "listed": {Input: 9}}},
		func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, `{"data":[{"id":"own"},{"id":"listed","price":{"input":2,"output":6}},
				{"id":"said","price":{"input":2,"output":6,"cache_read":0.5}},
				{"id":"odd","price":{"input":-2,"output":6}},{"id":"none"}]}`)
		})

	half := 0.5
	for name, want := range map[string]*domain.Price{
		"own": {Input: 1, Output: 2}, "listed": {Input: 9}, "said": {Input: 2, Output: 6, CacheRead: &half}, "odd": nil, "none": nil,
	} {
		m, err := c.Resolve(t.Context(), name)
		require.NoError(t, err)
		require.Equal(t, want, m.Price, name)
	}
}

func TestResolve(t *testing.T) {
	list := func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, modelList) }

	tests := []struct {
		name, configured, requested, want string
		window                            int64
	}{
		{"by name", "", "vllm", "vllm", 32768},
		{"by alias", "", "gpt-x", "gpt-x", 131072},
		{"without the tag", "", "bare", "bare", model.DefaultContextWindow},
		{"configured default", "vllm", "", "vllm", 32768},
		{"first that writes text", "", "", "main", 131072},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := serverWith(t, model.Config{DefaultModel: tt.configured}, list).Resolve(t.Context(), tt.requested)
			require.NoError(t, err)
			require.Equal(t, tt.want, got.ID)
			require.Equal(t, tt.window, got.ContextWindow)
		})
	}

	t.Run("unknown", func(t *testing.T) {
		_, err := server(t, list).Resolve(t.Context(), "nope")
		require.True(t, domain.HasCode(err, domain.CodeUnknownModel))
		require.Equal(t, domain.Invalid, domain.AsError(err).Kind)
	})
	t.Run("newer than the cached list", func(t *testing.T) {
		var grown atomic.Bool

		c := serverWith(t, model.Config{ListTTL: time.Hour}, func(w http.ResponseWriter, _ *http.Request) {
			if grown.Load() {
				fmt.Fprint(w, `{"data":[{"id":"old"},{"id":"new"}]}`)
				return
			}

			fmt.Fprint(w, `{"data":[{"id":"old"}]}`)
		})
		_, err := c.Resolve(t.Context(), "new")
		require.True(t, domain.HasCode(err, domain.CodeUnknownModel))
		grown.Store(true)

		got, err := c.Resolve(t.Context(), "new")
		require.NoError(t, err)
		require.Equal(t, "new", got.ID)
	})

	for _, empty := range []string{`{"data":[]}`, `{"data":null}`} {
		t.Run("empty list "+empty, func(t *testing.T) {
			c := server(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, empty) })
			_, err := c.Resolve(t.Context(), "")
			require.Equal(t, domain.Unavailable, domain.AsError(err).Kind)
			list, err := c.Models(t.Context())
			require.NoError(t, err)
			require.Empty(t, list)
		})
	}
}

func TestResolveWithoutAList(t *testing.T) {
	for name, handler := range map[string]http.HandlerFunc{
		"server fault": status(500, testKey),
		"not a list":   status(200, `<html>`),
		"null":         status(200, `null`),
		"no data":      status(200, `{"status":"ok"}`),
		"no such page": status(404, ``),
	} {
		t.Run(name, func(t *testing.T) {
			c := server(t, handler)
			got, err := c.Resolve(t.Context(), "anything")
			require.NoError(t, err)
			require.Equal(t, "anything", got.ID)
			require.EqualValues(t, model.DefaultContextWindow, got.ContextWindow)

			_, err = c.Resolve(t.Context(), "")
			require.Equal(t, domain.Unavailable, domain.AsError(err).Kind)
			require.NotContains(t, err.Error(), testKey)
			_, err = c.Models(t.Context())
			require.Error(t, err)
		})
	}
}

func TestModels_serverUnavailable(t *testing.T) {
	var down atomic.Bool

	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if down.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}

		fmt.Fprint(w, modelList)
	}))
	t.Cleanup(s.Close)
	c := model.New(model.Config{BaseURL: s.URL + "/v1/", ListTTL: time.Nanosecond})
	_, err := c.Models(t.Context())
	require.NoError(t, err)
	down.Store(true)

	_, err = c.Models(t.Context())
	require.Error(t, err)
	got, err := c.Resolve(t.Context(), "main")
	require.NoError(t, err)
	require.EqualValues(t, 131072, got.ContextWindow)
}

// A step does not wait for the list again once there is one.
func TestClient_Resolve_refreshesInTheBackground(t *testing.T) {
	var calls atomic.Int32

	hang, answered := make(chan struct{}), make(chan struct{}, 100)
	c := serverWith(t, model.Config{ListTTL: time.Nanosecond}, func(w http.ResponseWriter, _ *http.Request) {
		switch calls.Add(1) {
		case 1:
			fmt.Fprint(w, `{"data":[{"id":"m","context_window":1000}]}`)
		case 2:
			<-hang
			w.WriteHeader(http.StatusServiceUnavailable)
		default:
			fmt.Fprint(w, `{"data":[{"id":"m","context_window":2000}]}`)
		}

		answered <- struct{}{}
	})
	resolve := func() int64 {
		t.Helper()
		got, err := c.Resolve(t.Context(), "m")
		require.NoError(t, err)

		return got.ContextWindow
	}
	require.EqualValues(t, 1000, resolve(), "the first list is waited for")
	<-answered

	for range 50 {
		require.EqualValues(t, 1000, resolve(), "the old list serves while the server hangs")
	}

	require.LessOrEqual(t, calls.Load(), int32(2), "one refresh at a time")
	close(hang)
	require.Eventually(t, func() bool { return resolve() == 2000 }, time.Minute, time.Millisecond, "a failed refresh is repeated")
}

func TestModels_oneCallerCancels(t *testing.T) {
	entered, release := make(chan struct{}), make(chan struct{})
	c := server(t, func(w http.ResponseWriter, _ *http.Request) {
		close(entered)
		<-release
		fmt.Fprint(w, modelList)
	})
	ctx, cancel := context.WithCancel(t.Context())
	first := make(chan error, 1)

	go func() {
		_, err := c.Models(ctx)
		first <- err
	}()

	<-entered
	cancel()
	require.ErrorIs(t, <-first, context.Canceled)
	close(release)

	_, err := c.Models(t.Context())
	require.NoError(t, err)
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// A list that was asked for before the model was loaded does not say that it is unknown.
func TestResolve_loadedWhileListIsFetched(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		list, fetches, late := `{"data":[{"id":"old"}]}`, 0, make(chan struct{})
		c := model.New(model.Config{BaseURL: "http://models", ListTTL: time.Nanosecond, Transport: roundTrip(
			func(*http.Request) (*http.Response, error) {
				answer := list
				fetches++

				if fetches == 2 {
					<-late
				}

				return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader(answer))}, nil
			})})

		models := func() {
			if _, err := c.Models(t.Context()); err != nil {
				t.Error(err)
			}
		}

		models()
		time.Sleep(time.Second) //nolint:forbidigo // in a synctest bubble

		go models()

		synctest.Wait() // the second list is under way

		list = `{"data":[{"id":"old"},{"id":"new"}]}`

		time.Sleep(time.Second) //nolint:forbidigo // in a synctest bubble

		resolved := make(chan error, 1)

		go func() {
			_, err := c.Resolve(t.Context(), "new")
			resolved <- err
		}()

		synctest.Wait() // it has joined
		close(late)
		require.NoError(t, <-resolved)
		require.Equal(t, 3, fetches)

		_, err := c.Resolve(t.Context(), "nope")
		require.True(t, domain.HasCode(err, domain.CodeUnknownModel))
	})
}
