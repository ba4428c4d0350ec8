#!/usr/bin/env bash
# Runs tests against one set of real engines: PostgreSQL, Temporal, NATS and an S3
# server, started by the built binary.
# Usage: build/test.sh                      every test, with the race detector
#        build/test.sh --quick              every package and the end-to-end suites, but
#                                           none that injects faults, without the detector
#        build/test.sh go-test-arguments    what they name, with the race detector
set -euo pipefail
cd "$(dirname "$0")/.."
export EVERLOOP_BIN="$PWD/bin/everloop"
GOFLAGS="$(go env GOFLAGS) -trimpath" # as in the Makefile
export GOFLAGS

dir=$(mktemp -d)
chmod 755 "$dir"
mkfifo "$dir/stdin"
"$EVERLOOP_BIN" engines --dir "$dir/engines" --watch-stdin <"$dir/stdin" >"$dir/out" 2>"$dir/log" &
engines=$!
exec 3>"$dir/stdin" # open for as long as this script lives: the engines end with it
stop() {
	exec 3>&-
	wait "$engines" || true
	rm -rf "$dir"
}
trap stop EXIT

for _ in $(seq 6000); do # ten minutes: a busy machine takes its time
	[ -s "$dir/engines/engines.json" ] && break
	kill -0 "$engines" 2>/dev/null || break
	sleep 0.1
done
[ -s "$dir/engines/engines.json" ] || { cat "$dir/log" >&2; echo "the engines did not start" >&2; exit 1; }
export EVERLOOP_TEST_ENGINES="$dir/engines/engines.json"

if [ "${1-}" = --quick ]; then
	# The system tests kill and restart what they test.
	go list ./... | grep -vE '^everloop/(e2e|internal/systemtest)$' | xargs go test -p 3 -timeout 10m
	stop
	trap - EXIT
	go test -count=1 -timeout 10m -parallel 3 -skip '^TestEndToEnd$/(faults|chaos|deploys|processes|engine_)' ./e2e
	exit
fi
if [ $# -gt 0 ]; then
	go test -race -timeout 30m "$@"
	exit
fi
# The end-to-end suites start, kill and restart whole services: they get the
# machine for themselves. They are never taken from the cache, because go test
# does not know what the service is built from.
# The checks of sources have nothing that could race, and are slow with the detector.
# `make lint` vets; vetting every package here once more takes minutes.
go test ./internal/arrows ./internal/doccheck ./internal/wordlist
# The longest start first, so that no core waits for the last of them.
go list ./... | grep -vE '^everloop/(e2e|internal/(arrows|doccheck|wordlist))$' |
	xargs go test -race -vet=off -p 3 -timeout 60m ./internal/systemtest ./api
stop
trap - EXIT
go test -count=1 -timeout 75m -parallel 4 ./e2e
