#!/bin/sh
# Runs the client's tests against a real `forge serve` on SQLite and, where there is one, on PostgreSQL:
#
#   ./task test:python                                      both stores, as ./task test does
#   clients/python/test.sh                                  SQLite only
#   clients/python/test.sh tests/test_client.py -k version  arguments go to pytest
#   clients/python/test.sh --overhead                       what recording costs, instead of the tests (./task bench:python)
#
# Needs Go, Python 3.11 or newer and a package index; without them it is SKIPPED with the reason, and fails under CI=true.
#
#   FORGE_LONG=1               ./task test:living: all versions of the SDK, kills at every point, the server away for half a minute at each
#   FORGE_SDKS="2.55.0"        only these versions
#   FORGE_AWAY_SECONDS=30      how long the server is away at each point
#   FORGE_TEST_DATABASE_URL    a server; its database's name ends in _test (scripts/one-postgres.sh)
#   PYTHON, FORGE_PYTHON_CACHE as in venv.sh
set -eu
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)

skip() {
	echo "clients/python$2: SKIPPED: $1" >&2
	[ "${CI:-}" != true ] || exit 1
}

if [ "${FORGE_LONG:-}" = 1 ]; then
	sdks=${FORGE_SDKS:-2.55.0 2.58.0 2.68.0}
	export FORGE_AWAY_SECONDS="${FORGE_AWAY_SECONDS:-30}"
else
	sdks=${FORGE_SDKS:-2.55.0}
fi
for sdk in $sdks; do
	status=0
	reason=$(sh "$here/venv.sh" "$sdk" 2>&1 >/dev/null) || status=$?
	[ $status = 0 ] || { skip "$(echo "$reason" | tail -1)" ""; exit 0; }
done

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
trap 'exit 1' INT TERM
export PYTEST_DEBUG_TEMPROOT="$folder" # pytest keeps three folders per user, and a fourth run would take those of the first

if [ -z "${FORGE_BIN:-}" ]; then
	(cd "$root" && go build -o "$folder/forge" ./cmd/forge && go build -o "$folder/provider-stub" ./fixtures/provider/cmd/provider-stub)
	FORGE_BIN=$folder/forge
	FORGE_STUB_BIN=$folder/provider-stub
fi
export FORGE_BIN FORGE_STUB_BIN

[ -n "${FORGE_TEST_DATABASE_URL:-}" ] || skip "${FORGE_TEST_POSTGRES_SKIP:-run it through ./task test:python}" " on PostgreSQL"

if [ "${1:-}" = --overhead ]; then
	env=$(sh "$here/venv.sh" 2.55.0)
	export PYTHONPATH="$here/src" PYTHONDONTWRITEBYTECODE=1
	"$env/bin/python" "$here/overhead.py"
	[ -z "${FORGE_TEST_DATABASE_URL:-}" ] || "$env/bin/python" "$here/overhead.py" --database-url "$FORGE_TEST_DATABASE_URL"
	exit
fi

# From the source folder, with nothing written into it. What has nothing to do with the SDK runs with the first of them only.
status=0
rest=
for sdk in $sdks; do
	env=$(sh "$here/venv.sh" "$sdk")
	echo "clients/python with Pydantic AI $sdk"
	# shellcheck disable=SC2086
	(cd "$here" && PYTHONPATH="$here/src" PYTHONDONTWRITEBYTECODE=1 "$env/bin/python" -m pytest --numprocesses 4 --dist loadgroup ${1+"$@"} $rest) || status=1
	[ $# -gt 0 ] || rest="tests/test_wires.py tests/test_agent.py tests/test_continuity.py tests/test_ways_on.py tests/test_kill.py"
	[ $# -gt 0 ] || export FORGE_TEST_STORES=sqlite
done
# What the first SDK leaves out because it is about another one, in the short form too.
if [ $# -eq 0 ] && [ "$sdks" = 2.55.0 ]; then
	status2=0
	reason=$(sh "$here/venv.sh" 2.58.0 2>&1 >/dev/null) || status2=$?
	if [ $status2 = 0 ]; then
		FORGE_SDKS=2.58.0 FORGE_TEST_STORES=sqlite sh "$here/test.sh" tests/test_continuity.py -k other_versions || status=1
	else
		skip "$(echo "$reason" | tail -1)" " with Pydantic AI 2.58.0"
	fi
fi
exit $status
