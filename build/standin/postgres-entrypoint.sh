#!/bin/bash
# What the official image's entry point does with POSTGRES_USER, POSTGRES_PASSWORD,
# POSTGRES_DB and POSTGRES_INITDB_ARGS at the first start, and no more.
set -euo pipefail
as_postgres() { setpriv --reuid postgres --regid postgres --init-groups "$@"; }

install -d -m 0700 -o postgres -g postgres "$PGDATA"
install -d -m 0775 -o postgres -g postgres /var/run/postgresql
if [ ! -e "$PGDATA/PG_VERSION" ]; then
  read -ra initdb_args <<<"${POSTGRES_INITDB_ARGS:-}"
  password=$(mktemp)
  echo "$POSTGRES_PASSWORD" > "$password"
  chown postgres "$password"
  as_postgres initdb --username="$POSTGRES_USER" --pwfile="$password" \
    --auth-host=scram-sha-256 --auth-local=trust "${initdb_args[@]}"
  rm "$password"
  echo "host all all all scram-sha-256" >> "$PGDATA/pg_hba.conf"
  as_postgres pg_ctl -w -o "-c listen_addresses=''" start
  as_postgres createdb --username="$POSTGRES_USER" "$POSTGRES_DB"
  as_postgres pg_ctl -w -m fast stop
fi
exec setpriv --reuid postgres --regid postgres --init-groups "$@" -c listen_addresses='*'
