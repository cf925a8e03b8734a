#!/bin/sh
# Runs a Python script of ours that needs nothing but Python 3. Without Python it is skipped, and fails under CI=true.
set -eu
cd "$(dirname "$0")/.."
if command -v python3 >/dev/null; then
	exec python3 "$@"
fi
[ "${CI:-}" != true ] || { echo "python3 is missing" >&2; exit 1; }
echo "$1: SKIPPED: python3 is missing" >&2
