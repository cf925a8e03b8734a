#!/bin/sh
# Runs the client's tests against a real `forge serve` on SQLite, and on PostgreSQL where FORGE_TEST_DATABASE_URL names one.
# Makes one environment for each SDK version, once. Needs Go, Python 3.11 or newer and a package index.
#
#   clients/python/test.sh                    all three versions
#   clients/python/test.sh tests/test_client.py -k version       arguments go to pytest
#   FORGE_SDKS="2.55.0"                       only these versions
#   FORGE_TEST_POSTGRES_IMAGE=...             image of a PostgreSQL to start for the tests, where no URL is given
#   FORGE_LONG=1                              kill at every point, not only at the first of each kind
#   FORGE_AWAY_SECONDS=30                     how long the server is away in the tests of that
#   FORGE_PYTHON_CACHE=DIR                    where environments and binaries are kept (default: a folder of the system's temp folder)
set -eu
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
cache=${FORGE_PYTHON_CACHE:-${TMPDIR:-/tmp}/forge-python}
python=${PYTHON:-python3}
mkdir -p "$cache"

if ! "$python" -c 'import sys, venv; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
	[ "${CI:-}" != true ] || { echo "Python 3.11 with venv is missing" >&2; exit 1; }
	echo "clients/python: SKIPPED: Python 3.11 with venv is missing" >&2
	exit 0
fi

if [ -z "${FORGE_BIN:-}" ]; then
	(cd "$root" && go build -o "$cache/forge" ./cmd/forge && go build -o "$cache/provider-stub" ./fixtures/provider/cmd/provider-stub)
	FORGE_BIN=$cache/forge
	FORGE_STUB_BIN=$cache/provider-stub
fi
export FORGE_BIN FORGE_STUB_BIN

postgres=
folder=$(mktemp -d)
trap '[ -z "$postgres" ] || docker stop "$postgres" >/dev/null; rm -rf "$folder"' EXIT
export PYTEST_DEBUG_TEMPROOT="$folder" # pytest keeps three folders per user, and a fourth run would take those of the first

# A PostgreSQL of our own, where the image of the tests is there and no server is named (scripts/postgres.sh).
if [ -z "${FORGE_TEST_DATABASE_URL:-}" ] && [ -n "${FORGE_TEST_POSTGRES_IMAGE:-}" ] && command -v docker >/dev/null; then
	PGPASSWORD=$(od -An -N12 -tx1 /dev/urandom | tr -d ' \n')
	export PGPASSWORD
	postgres=$(docker run --detach --rm --env POSTGRES_PASSWORD="$PGPASSWORD" --env POSTGRES_USER=forge --env POSTGRES_DB=forge_test \
		--publish 127.0.0.1::5432 "$FORGE_TEST_POSTGRES_IMAGE")
	FORGE_TEST_DATABASE_URL="postgres://forge@$(docker port "$postgres" 5432/tcp | head -1)/forge_test"
	export FORGE_TEST_DATABASE_URL
	# The first start is on a socket only, so being ready stands in the log twice.
	n=0
	until [ "$(docker logs "$postgres" 2>&1 | grep -c 'ready to accept connections')" -ge 2 ]; do
		n=$((n + 1))
		[ $n -lt 120 ] || { echo "PostgreSQL does not start" >&2; exit 1; }
		sleep 0.5
	done
fi

status=0
for sdk in ${FORGE_SDKS:-2.55.0 2.58.0 2.68.0}; do
	env=$cache/$sdk
	wanted=$here/tests/requirements-$sdk.txt
	if ! cmp -s "$wanted" "$env/requirements.txt"; then
		rm -rf "$env"
		"$python" -m venv "$env"
		"$env/bin/pip" install --quiet --disable-pip-version-check --no-deps -r "$wanted"
		"$env/bin/pip" check >/dev/null
		cp "$wanted" "$env/requirements.txt"
	fi
	echo "clients/python with Pydantic AI $sdk"
	# From the source folder, with nothing written into it. What has nothing to do with the SDK runs with the first of them only.
	# shellcheck disable=SC2086
	(cd "$here" && PYTHONPATH=src PYTHONDONTWRITEBYTECODE=1 "$env/bin/python" -m pytest ${1+"$@"} ${rest:-}) || status=1
	[ $# -gt 0 ] || rest="tests/test_wires.py tests/test_agent.py tests/test_continuity.py tests/test_ways_on.py tests/test_kill.py"
done
exit $status
