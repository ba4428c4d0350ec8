// Package localservertest is a fake llama-server for tests: the test binary runs itself as the
// server.
package localservertest

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
)

// Main runs the server if the arguments are a server's; TestMain calls it first.
func Main() {
	switch {
	case slices.Contains(os.Args, "--model"):
		serve(os.Args[1:])
		os.Exit(0)
	case slices.Contains(os.Args, "--wait-as-child"):
		ignore()

		select {}
	}
}

// Model returns a file that is accepted as a model.
func Model(t *testing.T) string {
	t.Helper()

	file := filepath.Join(t.TempDir(), "tiny.gguf")
	if err := os.WriteFile(file, []byte("GGUF and more"), 0o600); err != nil {
		t.Fatal(err)
	}

	return file
}

// Program returns the program to run.
func Program(t *testing.T) string {
	t.Helper()

	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}

	return program
}

// Given describes the start of the server; its answers contain it as JSON.
type Given struct {
	Args, Env []string
	PID       int
	Child     int // a process that it has started; 0: none
	Directory string
}

func fatal(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

func ignore() { signal.Ignore(syscall.SIGTERM, syscall.SIGINT) }

// serve runs the server. It accepts the arguments that the gateway passes, and these.
func serve(args []string) {
	set := flag.NewFlagSet("llama-server", flag.ExitOnError)
	for _, name := range []string{"model", "alias", "ctx-size", "parallel"} {
		set.String(name, "", "of llama-server")
	}

	host := set.String("host", "", "address")
	port := set.String("port", "", "port")
	loading := set.Int("loading", 0, "answers with 503 before the first with 200; negative: all")
	deaf := set.Bool("ignore-term", false, "goes on after SIGTERM")
	crash := set.Bool("crash", false, "ends at once with exit status 3")
	child := set.Bool("child", false, "starts a further process that ignores SIGTERM")
	once := set.String("crash-once", "", "like crash, and makes this file, unless it exists")
	_ = set.Parse(args) // it exits

	key := os.Getenv("LLAMA_API_KEY")
	fmt.Printf("\x1b[32mkey %s\x1b[0m\n", key)

	if *deaf {
		ignore()
	}

	if _, err := os.Stat(*once); *once != "" && err != nil {
		*crash = os.WriteFile(*once, nil, 0o600) == nil
	}

	if *crash {
		fmt.Fprintln(os.Stderr, "error: out of memory")
		os.Exit(3)
	}

	given := Given{Args: os.Args, Env: os.Environ(), PID: os.Getpid()}
	given.Directory, _ = os.Getwd()

	if *child {
		other := exec.Command(os.Args[0], "--wait-as-child")
		other.Stdout = os.Stdout // holds the pipe open

		if err := other.Start(); err != nil {
			fatal(err)
		}

		given.Child = other.Process.Pid
	}

	fatal(http.ListenAndServe(net.JoinHostPort(*host, *port), handler(key, *loading, given)))
}

func handler(key string, loading int, given Given) http.Handler {
	mux := http.NewServeMux()

	var looks atomic.Int64

	mux.HandleFunc("GET /health", func(w http.ResponseWriter, _ *http.Request) {
		if loading < 0 || looks.Add(1) <= int64(loading) {
			w.WriteHeader(http.StatusServiceUnavailable)
			fmt.Fprint(w, `{"error":{"code":503,"message":"Loading model"}}`)

			return
		}

		fmt.Fprint(w, `{"status":"ok"}`)
	})
	mux.HandleFunc("GET /v1/models", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{"data":[{"id":"tiny","meta":{"n_ctx_train":4096}}]}`)
	})
	mux.HandleFunc("POST /v1/chat/completions", func(w http.ResponseWriter, r *http.Request) {
		text, _ := io.ReadAll(r.Body)

		switch {
		case r.Header.Get("Authorization") != "Bearer "+key:
			w.WriteHeader(http.StatusUnauthorized)
			fmt.Fprint(w, `{"error":{"message":"Invalid API Key"}}`)

			return
		case strings.Contains(string(text), "please crash"):
			fmt.Fprintln(os.Stderr, "error: device lost")
			os.Exit(4)
		}

		var asked struct{ Model string }

		_ = json.Unmarshal(text, &asked)
		content, _ := json.Marshal(given)
		answer, _ := json.Marshal(map[string]any{
			"model":   asked.Model,
			"choices": []any{map[string]any{"message": map[string]any{"role": "assistant", "content": string(content)}}},
			"usage":   map[string]int{"prompt_tokens": 1, "completion_tokens": 1},
		})

		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(answer)
	})

	return mux
}
