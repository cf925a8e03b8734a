#!/bin/sh
# Kills a living agent and continues it: examples/kill_and_continue.py in an environment made for it, once. Needs Go, Python 3.11 or
# newer and a package index. FORGE_PYTHON_CACHE as in clients/python/test.sh, whose environment this shares.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/.." && pwd)
cache=${FORGE_PYTHON_CACHE:-${TMPDIR:-/tmp}/forge-python}
sdk=2.55.0
wanted=$root/clients/python/tests/requirements-$sdk.txt
mkdir -p "$cache"
if [ -z "${FORGE_BIN:-}" ]; then
	(cd "$root" && go build -o "$cache/forge" ./cmd/forge && go build -o "$cache/provider-stub" ./fixtures/provider/cmd/provider-stub)
	FORGE_BIN=$cache/forge
	FORGE_STUB_BIN=$cache/provider-stub
fi
export FORGE_BIN FORGE_STUB_BIN
if ! cmp -s "$wanted" "$cache/$sdk/requirements.txt"; then
	rm -rf "${cache:?}/$sdk"
	"${PYTHON:-python3}" -m venv "$cache/$sdk"
	"$cache/$sdk/bin/pip" install --quiet --disable-pip-version-check --no-deps -r "$wanted"
	cp "$wanted" "$cache/$sdk/requirements.txt"
fi
exec "$cache/$sdk/bin/python" "$here/kill_and_continue.py"
