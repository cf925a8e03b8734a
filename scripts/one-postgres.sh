#!/bin/sh
# Runs a command with FORGE_TEST_DATABASE_URL set to a PostgreSQL of its own, which is gone when the command ends:
#
#   sh scripts/with-postgres.sh sh scripts/one-postgres.sh COMMAND...
#
# A server that FORGE_TEST_DATABASE_URL names already is used as it is. Where there is neither a server nor an image
# (scripts/postgres.sh says why), the command runs without.
set -eu

if [ -n "${FORGE_TEST_DATABASE_URL:-}" ] || [ -z "${FORGE_TEST_POSTGRES_IMAGE:-}" ]; then
	exec "$@"
fi

postgres=
trap '[ -z "$postgres" ] || docker stop "$postgres" >/dev/null' EXIT
trap 'exit 1' INT TERM
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
"$@"
