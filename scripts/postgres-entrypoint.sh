#!/bin/sh
# Entrypoint of the test image that postgres.sh makes. It understands as much of the public image's contract as the tests
# use: POSTGRES_USER, POSTGRES_PASSWORD, POSTGRES_DB, POSTGRES_INITDB_ARGS, arguments for the server, and a first start on
# a socket only, so that "ready to accept connections" stands in the log twice.
set -eu

if [ "$(id -u)" = 0 ]; then
	mkdir -p /var/lib/postgresql/data /var/run/postgresql
	chown -R postgres:postgres /var/lib/postgresql /var/run/postgresql
	exec setpriv --reuid=postgres --regid=postgres --init-groups "$0" "$@"
fi

bin=$(echo /usr/lib/postgresql/*/bin)
PATH=$bin:$PATH
export PGDATA=/var/lib/postgresql/data
user=${POSTGRES_USER:-postgres}
database=${POSTGRES_DB:-$user}

case ${1:-postgres} in
postgres) [ $# -gt 0 ] && shift ;;
-*) ;;
*) exec "$@" ;;
esac

if [ ! -s "$PGDATA/PG_VERSION" ]; then
	printf '%s\n' "${POSTGRES_PASSWORD:?POSTGRES_PASSWORD must be set}" >/tmp/password
	# shellcheck disable=SC2086
	initdb --username="$user" --pwfile=/tmp/password --auth-local=trust --auth-host=scram-sha-256 \
		--encoding=UTF8 --locale=C.UTF-8 --no-sync ${POSTGRES_INITDB_ARGS:-} >/dev/null
	rm /tmp/password
	echo "host all all all scram-sha-256" >>"$PGDATA/pg_hba.conf"
	pg_ctl start -w -o "-c listen_addresses=''"
	[ "$database" = postgres ] || createdb --username="$user" --maintenance-db=postgres "$database"
	pg_ctl stop -w -m fast
fi
exec postgres -c listen_addresses='*' "$@"
