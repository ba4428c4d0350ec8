# Part of build/test-compose.sh: the end-to-end suites against the stack.

# What suites start a service with, as the stack is started with it.
suite_settings() {
  cat <<END
ASR_MODEL=everloop-demo-speech
MODEL_PRICES=everloop-demo=2/6/0.5/2.5
IDENTITY_ADMIN_PASSWORD=correct horse battery
END
}

# stack_for_suites starts the stack again with empty volumes and these settings.
stack_for_suites() {
  docker_compose down --volumes --timeout 10 >"$work/down.log" 2>&1
  suite_settings >>"$work/env"
  overlays=(-f "$root/build/compose/suites.yml")
  docker_compose up -d --no-build >"$work/up.log" 2>&1 ||
    { tail -3 "$work/up.log"; fail "the stack does not start with the settings of the suites"; }
  await_healthy 180
  describe_stack >"$work/stack.json"
}

# suites_pass SUITE… runs these end-to-end suites against the stack; without any, all.
suites_pass() {
  (cd "$root/e2e" && { [ node_modules/.package-lock.json -nt package-lock.json ] || npm ci --silent; }) >"$work/npm.log" 2>&1 ||
    { tail -5 "$work/npm.log"; fail "npm ci in e2e"; }
  stack_for_suites
  say "the end-to-end suites begin"
  (cd "$root/e2e" && EVERLOOP_E2E_STACK=$work/stack.json EVERLOOP_BIN=$binary node stack.mjs "$@") ||
    fail "an end-to-end suite fails against the stack"
  say "the end-to-end suites passed against the stack"
}

# describe_stack writes what e2e/lib/stack.mjs reads.
describe_stack() {
  local one containers='{}'
  for one in postgres nats s3 temporal identity registry api worker desktop gateway git mock; do
    containers=$(jq -c --arg name "$one" --arg ids "$(docker_compose ps -q "$one")" '.[$name] = ($ids | split("\n"))' <<<"$containers")
  done
  jq -n --arg key "$key" --arg host "$address" --arg docker "$(client)" --arg gateway "$gateway_key" --argjson containers "$containers" \
    --arg settings "$(suite_settings; echo LOGIN_GUESSES_PER_USER=4)" \
    '{key: $key, host: $host, docker: $docker, containers: $containers,
      ports: {agent: 8020, ui: 8233, mock: 30023, registry: 8010, desktop: 80, git: 30030, gateway: 30000, identity: 19000},
      env: ($settings | split("\n") | map(capture("^(?<key>[^=]+)=(?<value>.*)$")) | from_entries),
      secrets: {"gateway-key": $gateway}}
     | .secrets["identity-admin-password"] = .env.IDENTITY_ADMIN_PASSWORD'
}
