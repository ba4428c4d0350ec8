# Part of build/test-compose.sh: chats through the API. The mock service's model does
# what a script in the message says.

# api METHOD PATH [BODY] [further arguments of curl]
api() {
  local method=$1 path=$2 body=${3:-}
  shift 2
  [ $# = 0 ] || shift
  curl -sS --fail-with-body --max-time 60 -X "$method" -H "Authorization: Bearer $key" \
    ${body:+-H 'Content-Type: application/json' --data-binary "$body"} "$@" "$api$path"
}

new_session() { api POST /api/sessions '{}' | jq -re .session_id; }

session_status() { api GET "/api/sessions/$1" | jq -r .status; }

# file_of SESSION FILE prints a file of the workspace; nothing while it is missing.
file_of() { api GET "/api/sessions/$1/files/$2" 2>/dev/null || true; }

# order COMMAND TEXT makes the body of a message upon which the model runs a command
# and then says a text.
order() {
  jq -cn --arg command "$1" --arg text "$2" \
    '{message: ("[[script]]" + ({steps: [{calls: [{name: "Bash", arguments: {command: $command}}]}, {text: $text}]} | tojson))}'
}

# send SESSION COMMAND TEXT leaves a message; the answer comes once it is durable.
send() { api POST "/api/sessions/$1/chat" "$(order "$2" "$3")"; }

# chat SESSION COMMAND TEXT follows the chat to its end and prints its events.
chat() { api POST "/api/sessions/$1/chat" "$(order "$2" "$3")" -N -H 'Accept: text/event-stream'; }

# watch_events SESSION SECONDS prints the events of the session from its beginning,
# and those of the time given.
watch_events() {
  curl -sN --max-time "$2" -H "Authorization: Bearer $key" "$api/api/sessions/$1/events?after_seq=0" || [ $? = 28 ]
}

# until_true SECONDS WHAT COMMAND
until_true() {
  local deadline=$(($(date +%s) + $1))
  until eval "$3"; do
    [ "$(date +%s)" -lt $deadline ] || fail "$2: not within $1 s"
    sleep 0.3
  done
}
