#!/bin/sh
# Writes the secrets of docker-compose.yml into .env, mode 0600, each random and its own.
# Those that are set there stay; all other settings too.
#
#   build/secrets.sh [FILE]      default: .env beside docker-compose.yml
set -eu
file=${1:-$(cd "$(dirname "$0")/.." && pwd)/.env}
umask 077
touch "$file"
chmod 600 "$file"
for name in POSTGRES_PASSWORD POSTGRES_APP_PASSWORD POSTGRES_IDENTITY_PASSWORD POSTGRES_REGISTRY_PASSWORD \
  POSTGRES_TEMPORAL_PASSWORD POSTGRES_BACKUP_PASSWORD TEMPORAL_KEY NATS_PASSWORD S3_ACCESS_KEY S3_SECRET_KEY GATEWAY_KEY; do
  if ! grep -q "^$name=." "$file"; then
    # A letter first: the password of NATS is part of an address.
    printf '%s=s%s\n' "$name" "$(od -An -tx1 -N24 /dev/urandom | tr -d ' \n')" >>"$file"
    echo "made $name in $file"
  fi
done
# The agent's models come through the gateway of the stack unless another server is set.
if ! grep -q '^LLM_GATEWAY_URL=.' "$file"; then
  key=$(sed -n 's/^GATEWAY_KEY=//p' "$file" | tail -n 1)
  printf 'LLM_GATEWAY_URL=http://gateway:29999\nLLM_GATEWAY_KEY=%s\n' "$key" >>"$file"
  echo "set LLM_GATEWAY_URL in $file"
fi
