# Part of build/test-compose.sh: docs/deployment.md, HTTPS and several API processes. Caddy
# signs the certificates itself, as the site is a name of this machine.

site=everloop.localhost

# https METHOD URL [further arguments of curl]
https() {
  local method=$1 url=$2
  shift 2
  curl -sS --fail-with-body --max-time 60 --cacert "$work/ca.crt" -X "$method" "$@" "$url" \
    --resolve "$site:443:$address" --resolve "api.$site:443:$address" --resolve "identity.$site:443:$address" \
    --resolve "gateway.$site:443:$address"
}

# https_serves puts Caddy before the stack and uses it by its names.
https_serves() {
  local id n opened said
  printf '%s\n' "SITE=$site" "HTTP_PUBLISH=$address:8080" "HTTPS_PUBLISH=$address:443" CADDY_IMAGE=everloop-standin-caddy >>"$work/env"
  overlays=(-f "$root/build/compose/https.yml")
  docker_compose up -d --no-build >"$work/up.log" 2>&1 || { tail -3 "$work/up.log"; fail "the stack does not start with HTTPS"; }
  await_healthy 180
  [ "$(docker_compose ps -q api | wc -l)" = 2 ] || fail "there are not two API processes"
  until_true 60 'Caddy has its own authority' \
    'docker_compose exec -T proxy cat /data/caddy/pki/authorities/local/root.crt >"$work/ca.crt" 2>/dev/null'
  until_true 60 'Caddy serves the site' 'https GET "https://$site/" >"$work/page" 2>/dev/null'
  grep -q '<title>Everloop' "$work/page" || fail "the desktop is not at https://$site: $(head -c 300 "$work/page")"
  [ "$(https GET "https://identity.$site/.well-known/openid-configuration" | jq -r .issuer)" = "https://identity.$site" ] ||
    fail "the identity service does not name its address"

  https GET "https://$site/" -o /dev/null -D - | grep -qi '^strict-transport-security: max-age=31536000' || fail "no Strict-Transport-Security"
  for n in "$site" "api.$site"; do
    [ "$(curl -sk --resolve "$n:443:$address" -o /dev/null -w '%{http_code}' "https://$n/metrics")" = 404 ] || fail "metrics are public at $n"
  done

  [ "$(https GET "https://gateway.$site/v1/models" -H "Authorization: Bearer $gateway_key" | jq -r .object)" = list ] ||
    fail "the model gateway does not answer by its name"

  # Each chat by another connection, so that both processes take part; Socket.IO by
  # polling has to reach the process that opened its connection.
  for n in 1 2 3 4; do
    id=$(https POST "https://api.$site/api/sessions" -H "Authorization: Bearer $key" -H 'Content-Type: application/json' -d '{}' | jq -re .session_id)
    https POST "https://$site/api/sessions/$id/chat" -H "Authorization: Bearer $key" -H 'Content-Type: application/json' -N \
      -H 'Accept: text/event-stream' -d "$(order "echo $n" "Chat $n by HTTPS is done.")" >"$work/https$n" || fail "a chat by HTTPS"
    grep -q "Chat $n by HTTPS is done" "$work/https$n" || fail "a chat by HTTPS has no answer: $(tail -3 "$work/https$n")"
    opened=$(https GET "https://$site/socket.io/?EIO=4&transport=polling" | sed 's/^0//' | jq -re .sid) || fail "Socket.IO by polling does not open"
    said=$(https POST "https://$site/socket.io/?EIO=4&transport=polling&sid=$opened" -d "40{\"token\":\"$key\"}") || fail "Socket.IO: $said"
    https GET "https://$site/socket.io/?EIO=4&transport=polling&sid=$opened" >"$work/polled" || fail "Socket.IO: $(cat "$work/polled")"
    grep -q '^40{"sid"' "$work/polled" || fail "Socket.IO does not admit the key: $(cat "$work/polled")"
  done
  say "HTTPS, two API processes and three workers: the desktop, sign-in addresses, chats and Socket.IO by polling"
}
