# Part of build/test-compose.sh: what the deployment page promises of the whole stack.

components="identity registry api desktop gateway git mock"

# No password has a default.
refuses_without_secrets() {
  local said
  if said=$("${compose[@]}" --project-directory "$root" --env-file /dev/null -f "$root/docker-compose.yml" config -q 2>&1); then
    fail "the stack starts without secrets"
  fi
  grep -q 'run build/secrets.sh' <<<"$said" || fail "a stack without secrets does not say how to make them: $said"
}

everloop_check() {
  IDENTITY_ADDR=$address:19000 REGISTRY_ADDR=$address:8010 AGENT_ADDR=$address:8020 DESKTOP_ADDR=$address:80 \
    GATEWAY_ADDR=$address:30000 GIT_ADDR=$address:30030 MOCK_ADDR=$address:30023 "$binary" check >"$work/check" 2>&1
}

# components_are_up sees the order of the start, and what `everloop check` says of a stack
# that is whole and of one without one of its components.
components_are_up() {
  local one at before=0
  for one in $components; do
    at=$(date -d "$(docker inspect -f '{{.State.StartedAt}}' "$(docker_compose ps -q "$one")")" +%s%N)
    [ "$at" -gt "$before" ] || fail "$one started before the component that it follows"
    before=$at
  done
  everloop_check || { cat "$work/check"; fail "everloop check finds a problem"; }
  docker_compose stop --timeout 10 mock >"$work/stop.log" 2>&1
  if everloop_check; then fail "everloop check does not see that the mock service is down"; fi
  grep -q 'logs mock' "$work/check" || { cat "$work/check"; fail "everloop check does not name the log to read"; }
  docker_compose start mock >"$work/start.log" 2>&1
  await_healthy 60
  say "the components started in their order; everloop check sees all of them"
}

# users_are_right: only the roles that change owners of files are root, and none can
# write into its image.
users_are_right() {
  local one user
  for one in $components worker temporal; do
    case $one in api | worker) user=0 ;; *) user=10001 ;; esac
    [ "$(docker_compose exec -T "$one" id -u)" = $user ] || fail "$one does not run as user $user"
    if docker_compose exec -T "$one" touch /usr/local/bin/x 2>/dev/null; then fail "$one can write into its image"; fi
    docker_compose exec -T "$one" test -s /usr/share/sbom/everloop.cdx.json || fail "the image of $one does not list its modules"
  done
}

# roles_are_separate: no service connects to PostgreSQL as a superuser, and the containers that
# do not encrypt do not have the key.
roles_are_separate() {
  local one
  [ "$(docker_compose exec -T postgres psql -U everloop -Atc \
    "SELECT string_agg(DISTINCT usename, ' ' ORDER BY usename) FROM pg_stat_activity WHERE client_addr IS NOT NULL AND usename = 'everloop'")" = "" ] ||
    fail "a service connects to PostgreSQL as the superuser"
  for one in temporal gateway; do
    if docker_compose exec -T "$one" test -e /data/keys/encryption-key; then fail "$one has the encryption key"; fi
  done
}
