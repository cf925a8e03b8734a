#!/bin/sh
# Kills a living agent and continues it: examples/kill_and_continue.py in an environment made for it, once. Needs Go, Python 3.11 or
# newer and a package index. PYTHON and FORGE_PYTHON_CACHE as in clients/python/venv.sh.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
env=$(sh "$root/clients/python/venv.sh" 2.55.0)
if [ -z "${FORGE_BIN:-}" ]; then
	folder=$(mktemp -d)
	trap 'rm -rf "$folder"' EXIT
	(cd "$root" && go build -o "$folder/forge" ./cmd/forge && go build -o "$folder/provider-stub" ./fixtures/provider/cmd/provider-stub)
	FORGE_BIN=$folder/forge
	FORGE_STUB_BIN=$folder/provider-stub
fi
export FORGE_BIN FORGE_STUB_BIN
"$env/bin/python" "$root/examples/kill_and_continue.py"
