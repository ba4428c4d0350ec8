#!/usr/bin/env bash
# Writes a small file tree for sandboxes that are containers, as a TAR: some programs of
# this machine with the libraries that they load. Tests import it where no registry is
# reachable. Usage: build/standin/sandbox-image.sh [PROGRAM…] >image.tar
# The libraries of the PROGRAMs are in it too, themselves they are not.
set -euo pipefail

programs=(
  bash sh awk cat chmod cp curl cut date dmesg du env false find getent grep head hostname id ln ls mkdir mount mv nohup readlink rm sed
  seq setsid sleep sort stat su sysctl tail touch tr true unshare wc
)

tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT

# keep copies a file to where its directory really is.
keep() {
  local dir
  dir=$(realpath "$(dirname "$1")")
  mkdir -p "$tree$dir"
  cp -L "$1" "$tree$dir/"
}

libraries() { ldd "$1" | grep -o '/[^ )]*' | while read -r file; do keep "$file"; done; }

for name in "${programs[@]}"; do
  path=$(type -P "$name")
  keep "$path"
  libraries "$path"
done
for path in "$@"; do
  ldd "$path" >/dev/null 2>&1 && libraries "$path"
done
for path in /lib/*/libnss_files.so*; do # loaded when a name is looked up
  [ ! -e "$path" ] || keep "$path"
done
for name in bin sbin lib lib64; do
  [ ! -L "/$name" ] || cp -P "/$name" "$tree/"
done
mkdir -p "$tree/etc" "$tree/tmp"
chmod 1777 "$tree/tmp"
tar -C "$tree" --owner=0 --group=0 -cf - .
