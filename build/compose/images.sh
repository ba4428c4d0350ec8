# Part of build/test-compose.sh: images without a registry.

build_images() {
  local suite
  suite=$(. /etc/os-release && echo "${VERSION_CODENAME:-bookworm}")
  export DOCKER_BUILDKIT=0 # the engine's own builder; BuildKit's client part may be missing
  base_image "$suite"
  build_program nats-server github.com/nats-io/nats-server/v2 github.com/nats-io/nats-server/v2
  build_program versitygw github.com/versity/versitygw github.com/versity/versitygw/cmd/versitygw
  build_program caddy github.com/caddyserver/caddy/v2 github.com/caddyserver/caddy/v2/cmd/caddy $caddy_version
  if [ -z "${EVERLOOP_BINARY:-}" ]; then
    say "building bin/everloop"
    make -C "$root" build GO="$go" >"$work/make.log" 2>&1 || { tail -20 "$work/make.log"; fail "make build"; }
  fi

  say "building images"
  standin postgres "$root/build/standin/postgres.Dockerfile" postgres-entrypoint.sh "$root/build/standin/postgres-entrypoint.sh"
  standin nats "$root/build/standin/program.Dockerfile" program "$(program_file nats-server github.com/nats-io/nats-server/v2)"
  standin versitygw "$root/build/standin/program.Dockerfile" program "$(program_file versitygw github.com/versity/versitygw)"
  standin caddy "$root/build/standin/caddy.Dockerfile" caddy "$(program_file caddy github.com/caddyserver/caddy/v2 $caddy_version)"
  DOCKER=$(client) BASE=$base "$root/build/image.sh" "everloop:$project" >"$work/build.log" 2>&1 ||
    { tail -20 "$work/build.log"; fail "build/image.sh"; }
  say "images are built"
}

# base_image SUITE imports a minimal Debian, made once by debootstrap.
base_image() {
  base=everloop-base:$1
  local file=$cache/base-$1.tar
  if [ ! -e "$file" ]; then
    say "making a base image of Debian $1 with debootstrap"
    debootstrap --variant=minbase "$1" "$work/rootfs" "$mirror" >"$work/debootstrap.log" 2>&1 ||
      { tail -5 "$work/debootstrap.log"; cannot "debootstrap cannot make a base image from $mirror"; }
    rm -rf "$work"/rootfs/var/cache/apt/archives/*.deb "$work"/rootfs/var/lib/apt/lists/*
    tar -C "$work/rootfs" -cf "$file.part" .
    mv "$file.part" "$file"
    rm -rf --one-file-system "$work/rootfs"
  fi
  docker image inspect "$base" >/dev/null 2>&1 || docker import "$file" "$base" >/dev/null
}

# Of Caddy, which is not in go.mod.
caddy_version=v2.11.9

# program_file NAME MODULE [VERSION] is where the program is kept; default: for the version in go.mod.
program_file() {
  echo "$cache/$1-${3:-$(cd "$root" && $go list -m -f '{{.Version}}' "$2")}"
}

# build_program NAME MODULE PACKAGE [VERSION] builds an engine's program. It takes the
# module's own requirements, which this repository has only in part.
build_program() {
  local file version
  file=$(program_file "$1" "$2" "${4-}")
  [ ! -x "$file" ] || return 0
  version=${file##*-}
  say "building $1 $version"
  mkdir -p "$work/gobin"
  (cd "$work" && CGO_ENABLED=0 GOBIN=$work/gobin $go install -trimpath -ldflags '-s -w' "$3@$version") >"$work/go.log" 2>&1 ||
    { tail -20 "$work/go.log"; cannot "$1 cannot be built from its Go module"; }
  mv "$work/gobin/$1" "$file"
}

# standin NAME DOCKERFILE FILE-NAME FILE builds the image everloop-standin-NAME with
# one file in its context.
standin() {
  local context=$work/context-$1
  mkdir "$context"
  cp "$4" "$context/$3"
  docker build -q -f "$2" --build-arg BASE="$base" -t "everloop-standin-$1" "$context" >"$work/build.log" 2>&1 ||
    { tail -20 "$work/build.log"; fail "the image that stands in for $1 cannot be built"; }
}
