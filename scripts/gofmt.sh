#!/bin/sh
# Fails, with their names, if Go files that git knows or would take are not formatted.
set -eu
cd "$(dirname "$0")/.."
bad=$(git ls-files -co --exclude-standard -z '*.go' | xargs -0 sh -c 'for f; do [ ! -f "$f" ] || printf "%s\0" "$f"; done' sh | xargs -0 gofmt -l)
[ -z "$bad" ] && exit 0
echo "not formatted (gofmt -w):" >&2
echo "$bad" >&2
exit 1
