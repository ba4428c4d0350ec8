#!/usr/bin/env bash
# Installs the tool server of the browser tools (docs/browser.md), which
# build/browser/package-lock.json pins by version and sha512, into BROWSER_TOOLS_DIR.
# The browser itself is a package of the distribution.
set -euo pipefail
cd "$(dirname "$0")"

dir=${BROWSER_TOOLS_DIR:-/usr/local/lib/everloop/browser}
umask 022 # all sandboxes read it
mkdir -p "$dir"
cp package.json package-lock.json .npmrc "$dir/"
npm ci --prefix "$dir" --omit=dev --ignore-scripts --silent
echo "browser: installed $("$dir/node_modules/.bin/playwright-mcp" --version) in $dir"
