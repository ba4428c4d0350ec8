# Part of build/test-compose.sh: the end-to-end suites against the stack.

# Where servers of the suites listen, for the worker and the API as for themselves.
outside=($((RANDOM % 5000 + 20000)) $((RANDOM % 5000 + 25000)))

# What suites start a service with, as the stack is started with it (suites.yml).
suite_settings() {
  local site=127.0.0.1:${outside[0]}
  cat <<END
ASR_MODEL=everloop-demo-speech
MODEL_PRICES=everloop-demo=2/6/0.5/2.5
IDENTITY_ADMIN_PASSWORD=correct horse battery
WEBHOOK_ALLOW=$site
SEARCH_URL=http://mock:30023
WEB_ALLOW=$site,192.0.2.0/24
LANGCHAIN_TOOLS=calculator,wikipedia=http://$site/w/api.php
SANDBOX_NETWORK_ALLOW=localhost:${outside[0]},$site,127.0.0.1:${outside[1]}
SANDBOX_READ_ONLY=/opt/e2e/node_modules
BROWSER_TOOLS=/opt/e2e
END
}

# suites_image adds to the image what the suites run in it, with the Node.js of this machine.
suites_image() {
  mkdir "$work/context-suites"
  cp "$(node -p process.execPath)" "$work/context-suites/node"
  docker build -f "$root/build/standin/suites.Dockerfile" --build-arg IMAGE="everloop:$project" -t "everloop:$project-suites" \
    "$work/context-suites" >"$work/build.log" 2>&1 || { tail -20 "$work/build.log"; fail "the image for the suites cannot be built"; }
  docker run --rm --entrypoint node "everloop:$project-suites" --version >"$work/node.log" 2>&1 ||
    { cat "$work/node.log"; cannot "the Node.js of this machine does not run in the image"; }
}

# stack_for_suites starts the stack again with empty volumes and these settings.
stack_for_suites() {
  docker_compose down --volumes --timeout 10 >"$work/down.log" 2>&1
  suites_image
  sed -i "s/^EVERLOOP_IMAGE=.*/&-suites/" "$work/env"
  suite_settings >>"$work/env"
  printf '%s\n' "SERVICE_AGENT_HOST_DIR=$work/shared" "E2E_MODULES=$root/e2e/node_modules" >>"$work/env"
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
    --arg settings "$(suite_settings; echo "SOLUTIONS=$work/shared/solutions")" --arg workspace "$work/shared/workspace" \
    --argjson outside "[${outside[0]}, ${outside[1]}]" \
    '{key: $key, host: $host, docker: $docker, containers: $containers, workspace: $workspace,
      ports: {outside: $outside, agent: 8020, ui: 8233, mock: 30023, registry: 8010, desktop: 80, git: 30030, gateway: 30000, identity: 19000},
      env: ($settings | split("\n") | map(capture("^(?<key>[^=]+)=(?<value>.*)$")) | from_entries),
      secrets: {"gateway-key": $gateway}}
     | .secrets["identity-admin-password"] = .env.IDENTITY_ADMIN_PASSWORD'
}
