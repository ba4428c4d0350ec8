# Part of build/test-compose.sh: docs/deployment.md, Backup.

# backup_comes_back SESSION backs up while another session's chat runs, restores into
# empty volumes, and sees that both sessions go on.
backup_comes_back() {
  local session=$1 busy ends
  busy=$(new_session)
  send "$busy" 'echo begin >>effects; for i in $(seq 60); do echo $i >>ticks; sleep 0.5; done; echo end >>effects' \
    "The busy chat went on." >"$work/busy" || fail "the message was not accepted"
  until_true 60 'the busy command started' '[ -n "$(file_of "$busy" ticks)" ]'

  docker_compose run --rm backup backup /backups/one >"$work/backup.log" 2>&1 || { tail -3 "$work/backup.log"; fail "the backup"; }
  [ "$(stat -c %a "$work/backups/one")" = 600 ] || fail "others can read the backup"
  [ "$(session_status "$busy")" = running ] || fail "the chat is $(session_status "$busy") after the backup"
  api GET "/api/sessions/$session/messages" >"$work/before"
  say "a backup was written while a chat ran"

  docker_compose down --volumes --timeout 10 >"$work/down.log" 2>&1
  docker_compose up -d --no-build postgres nats s3 temporal >"$work/up.log" 2>&1 || { tail -3 "$work/up.log"; fail "the engines do not start"; }
  docker_compose run --rm backup restore /backups/one >"$work/restore.log" 2>&1 || { tail -3 "$work/restore.log"; fail "the restore"; }
  docker_compose up -d --no-build >"$work/up.log" 2>&1 || { tail -3 "$work/up.log"; fail "the restored stack does not start"; }
  await_healthy 180

  api GET "/api/sessions/$session/messages" >"$work/after"
  cmp -s "$work/before" "$work/after" || fail "the messages of a session are not those of the backup"
  until_true 120 'the busy chat ended' '[ "$(session_status "$busy")" = completed ]'
  watch_events "$busy" 5 >"$work/events"
  ends=$(grep -c '^event: chat:end' "$work/events" || true)
  [ "$ends" = 1 ] || fail "the chat that ran during the backup ended $ends times"
  [ "$(file_of "$busy" effects)" = begin ] || fail "the busy command's effect is not there once: $(file_of "$busy" effects)"
  chat "$session" 'echo restored >>effects; cat effects' "The restored chat is done." >"$work/restored"
  grep -q 'The restored chat is done' "$work/restored" || fail "the restored session does not go on"
  say "the backup was restored into empty volumes; both sessions went on"
}
