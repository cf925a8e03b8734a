#!/bin/sh
# Runs a command with PostgreSQL for its tests: scripts/with-postgres.sh go test ./adapters/postgres
#
# Where this machine cannot have one, the command still runs and its PostgreSQL tests skip, with the reason; under CI=true
# that is a failure instead.
set -eu

root=$(cd "$(dirname "$0")/.." && pwd)
status=0
reason=$("$root/scripts/postgres.sh" 2>&1 >/dev/null) || status=$?
echo "$reason" >&2
if [ $status = 0 ]; then
	set -a
	. "$root/.task/postgres.env"
	set +a
elif [ $status = 3 ] && [ "${CI:-}" != true ]; then
	echo "PostgreSQL tests: SKIPPED" >&2
	FORGE_TEST_POSTGRES_SKIP=$(echo "$reason" | tail -1)
	export FORGE_TEST_POSTGRES_SKIP
else
	exit 1
fi
exec "$@"
