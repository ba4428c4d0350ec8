package main

import (
	"context"
	"net/http"
	"net/http/pprof"
	"time"
)

// debugFlags open Go's profiles to operators. They tell of the process and its
// memory: keep the address on loopback.
type debugFlags struct {
	DebugAddr string `env:"DEBUG_ADDR" help:"Where Go's profiles are served (net/http/pprof); off when unset."`
}

// serve answers until ctx ends.
func (f debugFlags) serve(ctx context.Context) error {
	if f.DebugAddr == "" {
		return nil
	}
	listener, err := listen("DEBUG_ADDR", f.DebugAddr)
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	context.AfterFunc(ctx, func() { _ = server.Close() })
	go func() { _ = server.Serve(listener) }()
	return nil
}
