#!/bin/bash
# Builds the image of Everloop from a program that was built on this machine, for
# machines without a registry: a base image made with debootstrap will do.
#
#   build/image.sh TAG [further arguments of docker build]
#
#   EVERLOOP_BINARY   the program; default bin/everloop (`make build`). It must be
#                     for Linux with a C library no newer than that of the base.
#   BASE              base image; default debian:12.12-slim
#   DOCKER            the client; default docker
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
tag=${1:?usage: build/image.sh TAG [arguments of docker build]}
shift
binary=${EVERLOOP_BINARY:-$root/bin/everloop}
[ -x "$binary" ] || { echo "build/image.sh: $binary is missing: run make build first" >&2; exit 1; }

# A directory with nothing else in it: the engine is sent all of it.
context=$(mktemp -d)
trap 'rm -rf "$context"' EXIT
mkdir "$context/build" "$context/bin"
cp "$root/build/healthcheck.sh" "$context/build/"
cp "$binary" "$context/bin/everloop"
${DOCKER:-docker} build -f "$root/build/Dockerfile" --target prebuilt \
  --build-arg BASE="${BASE:-debian:12.12-slim}" -t "$tag" "$@" "$context"
