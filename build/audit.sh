#!/usr/bin/env bash
# Looks up known vulnerabilities of what the product, its tests and its image depend on:
# govulncheck for the Go code that is reachable, `npm audit` for each package-lock.json.
# Exit code: 0 none found, 1 found, 2 a lookup failed and the others found none.
set -uo pipefail
cd "$(dirname "$0")/.."

found=0
unreachable=0
log=$(mktemp)
trap 'rm -f "$log"' EXIT

echo "== govulncheck ./..."
go tool -modfile=build/tools/go.mod govulncheck ./... 2>&1 | tee "$log"
status=${PIPESTATUS[0]}
case $status in
0) ;;
3) found=1 ;;
*)
	echo "govulncheck failed: no answer about the Go dependencies" >&2
	unreachable=1
	;;
esac

while read -r lock; do
	directory=$(dirname "$lock")
	echo "== npm audit in $directory"
	if (cd "$directory" && npm audit --package-lock-only) 2>&1 | tee "$log"; then
		continue
	fi
	if grep -q '^npm error' "$log"; then # not a finding: npm itself failed
		echo "npm audit failed: no answer about $lock" >&2
		unreachable=1
	else
		found=1
	fi
done < <(git ls-files '*package-lock.json')

if [ $found = 1 ]; then
	echo "audit: vulnerabilities found" >&2
	exit 1
fi
if [ $unreachable = 1 ]; then
	echo "audit: not complete, a lookup failed (is the network reachable?)" >&2
	exit 2
fi
echo "audit: no known vulnerabilities"
