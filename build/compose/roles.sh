#!/bin/sh
# Creates the roles and databases of PostgreSQL for docker-compose.yml, as the superuser:
# the service database-roles. It changes nothing where all is right.
set -eu
export PGHOST=postgres PGUSER=everloop PGDATABASE=everloop

export PGOPTIONS="-c everloop.app_password=$APP_PASSWORD -c everloop.identity_password=$IDENTITY_PASSWORD
 -c everloop.registry_password=$REGISTRY_PASSWORD -c everloop.temporal_password=$TEMPORAL_PASSWORD
 -c everloop.backup_password=$BACKUP_PASSWORD -c client_min_messages=warning"

for database in temporal temporal_visibility; do
  found=$(psql -Atc "SELECT count(*) FROM pg_database WHERE datname = '$database'")
  [ "$found" = 1 ] || createdb "$database"
done
for database in everloop temporal temporal_visibility; do
  psql -q -1 -v ON_ERROR_STOP=1 -d "$database" -f /etc/everloop/roles.sql
done
