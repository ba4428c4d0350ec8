# Part of build/test-compose.sh: a Docker engine of its own, and its end.

# install_missing COMMAND:PACKAGE… installs the packages whose command is missing.
# A new docker.io would start an engine at once: policy-rc.d keeps it from doing so.
install_missing() {
  local pair packages=()
  for pair in "$@"; do
    command -v "${pair%%:*}" >/dev/null || packages+=("${pair##*:}")
  done
  [ ${#packages[@]} -gt 0 ] || return 0
  say "installing ${packages[*]}"
  local policy=/usr/sbin/policy-rc.d made=''
  if [ ! -e $policy ]; then
    made=$policy
    printf '#!/bin/sh\nexit 101\n' >$policy
    chmod +x $policy
  fi
  { apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "${packages[@]}"; } \
    >"$work/apt.log" 2>&1 || { tail -5 "$work/apt.log"; [ -z "$made" ] || rm "$made"; cannot "apt-get cannot install ${packages[*]}"; }
  [ -z "$made" ] || rm "$made"
}

# client is the one that came with the engine: another one in the PATH may be too
# new for it.
client() {
  local engine place
  if engine=$(command -v dockerd); then
    for place in "$(dirname "$engine")" /usr/bin; do
      if [ -x "$place/docker" ]; then echo "$place/docker"; return; fi
    done
  fi
  type -P docker
}

docker() { "$(client)" "$@"; }

# use_running_engine takes the engine of this machine when one answers.
use_running_engine() {
  local socket=/var/run/docker.sock
  if [ -z "${DOCKER_HOST:-}" ] && [ -S $socket ] && type -P docker >/dev/null &&
    docker --host "unix://$socket" version >/dev/null 2>&1; then
    say "an engine runs already: using it"
    export DOCKER_HOST=unix://$socket
  fi
}

firewall() { iptables -t "$1" -S; }

start_engine() {
  if [ -n "${DOCKER_HOST:-}" ]; then
    docker version >"$work/version.log" 2>&1 || { cat "$work/version.log"; cannot "no engine answers at DOCKER_HOST"; }
    return
  fi
  # Two engines share one set of network rules, and the second flushes the first's.
  if [ -e /sys/class/net/docker0 ] || firewall filter 2>/dev/null | grep DOCKER >/dev/null; then
    cannot "another Docker engine runs, or ran, here: set DOCKER_HOST to use it, as unix:///var/run/docker.sock"
  fi
  if ! firewall filter >"$work/firewall.filter" 2>"$work/iptables.log" || ! firewall nat >"$work/firewall.nat" 2>>"$work/iptables.log"; then
    cat "$work/iptables.log"
    cannot "the engine's network needs iptables"
  fi
  ls /sys/class/net >"$work/links"
  cat /proc/sys/net/ipv4/ip_forward >"$work/ip_forward"

  export DOCKER_HOST=unix://$work/docker.sock
  setsid dockerd --host "$DOCKER_HOST" --data-root "$work/docker" --exec-root "$work/exec" \
    --pidfile "$work/dockerd.pid" >"$work/dockerd.log" 2>&1 &
  engine=$!
  for _ in $(seq 120); do
    if docker version >/dev/null 2>&1; then return; fi
    kill -0 $engine 2>/dev/null || break
    sleep 0.25
  done
  tail -5 "$work/dockerd.log"
  cannot "dockerd does not start on this machine (its last words are above)"
}

# stop_engine ends what start_engine started and takes away what it left behind.
stop_engine() {
  [ -n "$engine" ] || return 0
  local ids link rule table
  ids=$(docker ps -aq 2>/dev/null)
  [ -z "$ids" ] || docker rm -f $ids >/dev/null 2>&1
  kill -TERM $engine 2>/dev/null
  for _ in $(seq 120); do
    kill -0 $engine 2>/dev/null || break
    sleep 0.25
  done
  kill -KILL $engine 2>/dev/null && say "dockerd had to be killed"
  wait $engine 2>/dev/null

  for table in filter nat; do
    firewall $table | grep -vxFf "$work/firewall.$table" >"$work/new"
    sed -n 's/^-A /-D /p' "$work/new" | while read -r rule; do iptables -t $table $rule; done
    sed -n 's/^-N //p' "$work/new" | while read -r rule; do iptables -t $table -F "$rule"; iptables -t $table -X "$rule"; done
    sed -n 's/^-P /-P /p' "$work/firewall.$table" | while read -r rule; do iptables -t $table $rule; done
  done
  for link in $(ls /sys/class/net | grep -vxFf "$work/links"); do
    case $link in docker0 | br-* | veth*) ip link delete "$link" ;; esac
  done
  cat "$work/ip_forward" >/proc/sys/net/ipv4/ip_forward
  # Mounts that the engine left below its directories.
  findmnt -rno TARGET | grep "^$work/" | sort -r | while read -r rule; do umount "$rule"; done
}

# find_compose finds Docker Compose 2. The 1.29 of Debian 12 cannot give the worker
# its security options; the package of Debian 13 runs there too.
find_compose() {
  if docker compose version --short 2>/dev/null | grep '^v\?[2-9]' >/dev/null; then
    compose=(docker compose)
  elif docker-compose version --short 2>/dev/null | grep '^v\?[2-9]' >/dev/null; then
    compose=(docker-compose)
  else
    [ -x "$cache/docker-compose" ] || fetch_compose
    compose=("$cache/docker-compose")
  fi
}

fetch_compose() {
  say "fetching Docker Compose 2 from Debian 13"
  local dir=$work/apt
  mkdir -p "$dir/lists/partial" "$dir/cache/archives/partial" "$dir/out"
  echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror trixie main" >"$dir/sources.list"
  local options=(-o "Dir::Etc::sourcelist=$dir/sources.list" -o Dir::Etc::sourceparts=/dev/null
    -o "Dir::State::lists=$dir/lists" -o "Dir::Cache=$dir/cache" -o APT::Sandbox::User=root)
  { apt-get "${options[@]}" update && cd "$dir/out" && apt-get "${options[@]}" download docker-compose && cd "$root" &&
    dpkg-deb -x "$dir"/out/docker-compose_*.deb "$dir/tree"; } >"$work/compose.log" 2>&1 ||
    { tail -5 "$work/compose.log"; cannot "Docker Compose 2 is neither installed nor to be had from $mirror"; }
  local program
  program=$(find "$dir/tree" -type f -name docker-compose -perm -u+x | head -1)
  "$program" version --short >/dev/null 2>&1 || cannot "the Docker Compose of Debian 13 does not run here"
  mv "$program" "$cache/docker-compose"
}

docker_compose() {
  "${compose[@]}" --ansi never --project-name "$project" --project-directory "$root" --env-file "$work/env" \
    -f "$root/docker-compose.yml" "${overlays[@]}" "$@"
}

# await_healthy SECONDS returns when every container is healthy and migrate ended.
await_healthy() {
  local deadline=$(($(date +%s) + $1)) states
  local service='{{index .Config.Labels "com.docker.compose.service"}}' health='{{if .State.Health}}{{.State.Health.Status}}{{end}}'
  while :; do
    states=$(docker_compose ps -a -q | xargs -r "$(client)" inspect -f \
      "$service {{.State.Status}} $health {{.State.ExitCode}}")
    if ! grep -vqE ' running healthy 0$|^(migrate|database-roles) exited +0$|^proxy running +0$' <<<"$states"; then return; fi
    if grep -qE '^(migrate|database-roles) exited +[1-9]' <<<"$states"; then fail "migrate or database-roles failed"; fi
    [ "$(date +%s)" -lt $deadline ] || { echo "$states"; fail "not every container is healthy after $1 s"; }
    sleep 0.5
  done
}
