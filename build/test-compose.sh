#!/bin/bash
# Starts the stack of docker-compose.yml on a machine without a registry, kills its
# worker in the middle of a command, and sees that nothing is lost and nothing done
# twice. Then it runs the end-to-end suites against the stack. For a plain Debian
# machine with Go and Node.js, as root; `make test-compose` calls it.
#
# It installs docker.io and debootstrap when they are missing, starts an engine of
# its own unless one runs (its data, socket and network rules go at the end), and
# builds every image from Debian packages, Go modules and this repository.
#
#   EVERLOOP_BINARY       program to test; default: bin/everloop, built first
#   EVERLOOP_TEST_CACHE   where the base image and the engines' programs are kept
#                         from run to run; default ~/.cache/everloop/compose
#   EVERLOOP_TEST_MIRROR  Debian mirror; default: the one this machine uses
#   EVERLOOP_TEST_SUITES  end-to-end suites to run against the stack, as "flow questions";
#                         none: none; default: all that can
#   DOCKER_HOST           the engine to use; default: the one at /var/run/docker.sock
#   GO                    default go
#
# Exit codes: 0 passed; 1 failed; 3 it cannot be run on this machine, and why.
set -euo pipefail

root=$(cd "$(dirname "$0")/.." && pwd)
cache=${EVERLOOP_TEST_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/everloop/compose}
mirror=${EVERLOOP_TEST_MIRROR:-$(apt-cache policy | sed -n 's/.* \(https\{0,1\}:[^ ]*debian\)[ /].*main.*/\1/p' | head -n 1)}
go=${GO:-go}
binary=${EVERLOOP_BINARY:-$root/bin/everloop}
project=everloop-test-$$
work='' engine='' base='' compose=() overlays=()

began=$(date +%s.%N)
say() { printf '%6.1f s  %s\n' "$(echo "$(date +%s.%N) $began" | awk '{print $1-$2}')" "$*"; }
fail() { say "FAILED: $*"; exit 1; }
cannot() { say "NOT RUN: $*"; exit 3; }

source "$root/build/compose/engine.sh"
source "$root/build/compose/images.sh"
source "$root/build/compose/chat.sh"
source "$root/build/compose/whole.sh"
source "$root/build/compose/backup.sh"
source "$root/build/compose/https.sh"
source "$root/build/compose/suites.sh"

finish() {
  local code=$?
  case $code in 0 | 3 | 130) ;; *) code=1 ;; esac # whatever a command of this script gave
  trap - EXIT INT TERM
  set +e
  if [ -n "$work" ]; then
    if [ ${#compose[@]} -gt 0 ] && docker version >/dev/null 2>&1; then
      if [ $code != 0 ]; then
        docker_compose ps -a
        docker_compose logs --tail 40
      fi
      docker_compose down --volumes --timeout 5 >"$work/down.log" 2>&1 || cat "$work/down.log"
    fi
    docker rmi "everloop:$project-suites" "everloop:$project" >/dev/null 2>&1
    stop_engine
    rm -rf --one-file-system "$work"
  fi
  say "done, exit code $code"
  exit $code
}
trap finish EXIT
trap 'exit 130' INT TERM

# ---- set-up ------------------------------------------------------------------

[ "$(uname -s)" = Linux ] || cannot "this needs Linux"
[ "$(id -u)" = 0 ] || cannot "an engine of its own and debootstrap need root"
command -v apt-get >/dev/null || cannot "this needs Debian: apt-get is missing"
[ "${EVERLOOP_TEST_SUITES-}" = none ] || { command -v node && command -v npm; } >/dev/null ||
  cannot "the end-to-end suites need Node.js and npm; EVERLOOP_TEST_SUITES=none leaves the suites out"
mkdir -p "$cache"
work=$(mktemp -d "$cache/run.XXXXXX")

use_running_engine
install_missing debootstrap:debootstrap curl:curl jq:jq make:make
if [ -n "${DOCKER_HOST:-}" ]; then install_missing docker:docker.io; else install_missing dockerd:docker.io iptables:iptables; fi
start_engine
find_compose
say "engine $(docker version -f '{{.Server.Version}}'), compose $("${compose[@]}" version --short)"
build_images

# ---- the stack ---------------------------------------------------------------

# The specified ports, at a loopback address of this test's own.
address=127.$((RANDOM % 200 + 20)).$((RANDOM % 250 + 1)).1
key=el_$(od -An -tx1 -N24 /dev/urandom | tr -d ' \n')
refuses_without_secrets
"$root/build/secrets.sh" "$work/env" >"$work/secrets.log"
gateway_key=$(sed -n 's/^GATEWAY_KEY=//p' "$work/env")
cat >>"$work/env" <<END
EVERLOOP_IMAGE=everloop:$project
POSTGRES_IMAGE=everloop-standin-postgres
NATS_IMAGE=everloop-standin-nats
S3_IMAGE=everloop-standin-versitygw
AGENT_PUBLISH=$address:8020
TEMPORAL_UI_PUBLISH=$address:8233
TEMPORAL_UI_URL=http://$address:8233
MOCK_PUBLISH=$address:30023
REGISTRY_PUBLISH=$address:8010
DESKTOP_PUBLISH=$address:80
GIT_PUBLISH=$address:30030
GATEWAY_PUBLISH=$address:30000
IDENTITY_PUBLISH=$address:19000
IDENTITY_ISSUER=http://$address:19000
DESKTOP_URL=http://$address
BACKUP_DIR=$work/backups
BOOTSTRAP_API_KEY=$key
LOG_LEVEL=info
END

docker_compose up -d --no-build >"$work/up.log" 2>&1 || { tail -3 "$work/up.log"; fail "the stack does not start"; }
await_healthy 180
api=http://$address:8020
level=$(docker_compose logs worker | sed -n 's/.*"sandbox":"\([^"]*\)".*/\1/p' | tail -1)
say "all containers are healthy; the API is at $api; sandbox: $level"
case $level in "level 2 "*) ;; *) fail "the worker's sandbox is not at level 2" ;; esac

components_are_up
users_are_right
roles_are_separate

# ---- an ordinary chat, which also looks around in the sandbox ------------------

# The sandbox has no resolver: it is given the address of PostgreSQL.
postgres=$(docker inspect -f '{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}' "$(docker_compose ps -q postgres)")
look='id -u; ls -A /data /root 2>&1; tr "\0" "\n" </proc/1/environ; env; '
look+='for p in '$postgres'/5432 127.0.0.1/8021; do (exec 3<>/dev/tcp/$p) 2>/dev/null && echo "reached $p"; done; '
look+='git --version; rg --version | head -1; echo looked >look; true'
api PUT /api/env/buckets/default '{"env":{"FROM_BUCKET":"sealed by the API"}}' >/dev/null
session=$(new_session)
chat "$session" "$look" "The first chat is done." >"$work/first"
grep -q 'The first chat is done' "$work/first" || fail "the first chat did not say its end: $(tail -5 "$work/first")"
[ "$(file_of "$session" look)" = looked ] || fail "the command of the first chat wrote no file"
seen=$(api GET "/api/sessions/$session/messages" | jq -r '.. | .result? // empty')
secrets='POSTGRES_PASSWORD|POSTGRES_APP_PASSWORD|TEMPORAL_KEY|NATS_PASSWORD|S3_SECRET_KEY|GATEWAY_KEY|BOOTSTRAP_API_KEY'
for word in $(sed -nE "s/^($secrets)=//p" "$work/env") reached bootstrap-key; do
  if grep -qF "$word" <<<"$seen"; then fail "a command in the sandbox sees what it must not: $word"; fi
done
grep -q 'git version' <<<"$seen" || fail "the sandbox has no git: $seen"
grep -q 'FROM_BUCKET=sealed by the API' <<<"$seen" || fail "the worker cannot read what the API encrypted"
say "the first chat is done; its command saw nothing of the service"

# ---- files go to the object store and come back ---------------------------------

chat "$session" 'rm look' "The file is gone." >"$work/gone"
captured() { api GET "/api/sessions/$session/checkpoints" | jq -re 'last | select(.files.complete) | .checkpoint_id'; }
until_true 60 'the files are captured' 'checkpoint=$(captured)'
api POST "/api/sessions/$session/rewind" "{\"checkpoint_id\":\"$checkpoint\"}" >"$work/rewind" || fail "rewind: $(cat "$work/rewind")"
[ "$(file_of "$session" look)" = looked ] || fail "the rewind brought no file back"
api GET "/api/sessions/$session/export" "" -o "$work/export.zip" || fail "the session cannot be exported"
[ "$(head -c 2 "$work/export.zip")" = PK ] || fail "the export is no ZIP file"
say "a deleted file came back by a rewind; the session was exported"

# ---- the worker dies in the middle of a command --------------------------------

session=$(new_session)
slow='echo begin >>effects; for i in $(seq 60); do echo $i >>ticks; sleep 0.5; done; echo end >>effects'
chat_id=$(send "$session" "$slow" "The second chat went on." | jq -re .chat_id) || fail "the message was not accepted"
until_true 60 'the slow command started' '[ -n "$(file_of "$session" ticks)" ]'
worker=$(docker_compose ps -q worker)
docker kill -s KILL "$worker" >/dev/null
killed=$(date +%s.%N)
say "the worker was killed in the middle of a command"
ticks=$(file_of "$session" ticks | wc -l)
[ "$(session_status "$session")" = running ] || fail "the session is $(session_status "$session") right after the kill"
docker start "$worker" >/dev/null
until_true 90 'the chat ended' '[ "$(session_status "$session")" = completed ]'
say "the worker was started again; the chat ended $(echo "$(date +%s.%N) $killed" | awk '{printf "%.1f", $1-$2}') s after the kill"

# Whatever ends a chat a second time would do so soon: the dead worker's leases and
# heartbeats run out within this time.
watch_events "$session" 15 >"$work/events"
ends=$(grep -c '^event: chat:end' "$work/events" || true)
[ "$ends" = 1 ] || fail "the chat $chat_id ended $ends times"
[ "$(file_of "$session" effects)" = begin ] || fail "the command's effect is not there once: $(file_of "$session" effects)"
[ "$(file_of "$session" ticks | wc -l)" = "$ticks" ] || fail "the command went on, or ran again, after the kill"
api GET "/api/sessions/$session/messages" >"$work/messages"
calls=$(jq -c '[.. | .tool_calls? // empty | .[] | .status]' "$work/messages")
[ "$calls" = '["error"]' ] || fail "tool calls should be one with an error, they are $calls"
grep -q 'The second chat went on' "$work/messages" || fail "the model was not called again"
say "it ended exactly once, the command ran once, and the model went on"

chat "$session" 'echo again >>effects; cat effects' "The third chat is done." >"$work/third"
[ "$(file_of "$session" effects | tr '\n' ' ')" = "begin again " ] || fail "the session does not go on after the crash"
say "the same session goes on"

# ---- three workers -------------------------------------------------------------

docker_compose up -d --no-build --no-recreate --scale worker=3 >"$work/scale.log" 2>&1 || { tail -3 "$work/scale.log"; fail "scaling"; }
await_healthy 90
pids=()
for n in 1 2 3 4 5 6; do
  (chat "$(new_session)" "sleep 0.5; echo $n" "Chat $n is done." >"$work/chat$n" && grep -q "Chat $n is done" "$work/chat$n") &
  pids+=($!)
done
for pid in "${pids[@]}"; do wait "$pid" || fail "a chat on three workers did not end well"; done
say "three workers carried out six chats at once"

# ---- everything goes, but for the volumes, and comes back ----------------------

api GET "/api/sessions/$session/messages" >"$work/before"
docker_compose stop --timeout 30 worker api >"$work/stop.log" 2>&1
for id in $(docker_compose ps -a -q worker api); do
  code=$(docker inspect -f '{{.State.ExitCode}}' "$id")
  [ "$code" = 0 ] || fail "a role ended with code $code when it was stopped in order"
done
docker_compose down --timeout 30 >"$work/down.log" 2>&1 || { tail -3 "$work/down.log"; fail "docker compose down"; }
docker_compose up -d --no-build >"$work/up.log" 2>&1 || { tail -3 "$work/up.log"; fail "the stack does not start again"; }
await_healthy 120
api GET "/api/sessions/$session/messages" >"$work/after"
cmp -s "$work/before" "$work/after" || fail "the messages of a session changed when the stack was taken down and started again"
chat "$session" 'echo more >>effects' "The last chat is done." >"$work/last"
[ "$(file_of "$session" effects | tr '\n' ' ')" = "begin again more " ] || fail "the session does not go on after the stack came back"
say "the stack was taken down and started again; the session goes on"

backup_comes_back "$session"
https_serves

# ---- the end-to-end suites -----------------------------------------------------

if [ "${EVERLOOP_TEST_SUITES-}" != none ]; then
  read -ra suites <<<"${EVERLOOP_TEST_SUITES-}"
  suites_pass "${suites[@]}"
fi
say "PASSED"
