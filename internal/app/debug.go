package app

import (
	"net/http"
	"net/http/pprof"

	"everloop/internal/app/flags"
	"everloop/internal/lifecycle"
)

// debugFlags open Go's profiles to operators. They show the process and its
// memory: keep the address on loopback.
type debugFlags struct {
	DebugAddr string `help:"Where Go's profiles are served (net/http/pprof); off when unset."`
}

// service listens and serves the profiles; nil when that is off.
func (f debugFlags) service() (lifecycle.Service, error) {
	if f.DebugAddr == "" {
		return nil, nil
	}

	listener, err := flags.Listen("--debug-addr", f.DebugAddr)
	if err != nil {
		return nil, err
	}

	mux := http.NewServeMux()
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)

	return httpService("debug server", listener, mux), nil
}
