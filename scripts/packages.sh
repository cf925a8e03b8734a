#!/bin/sh
# Installs the Debian packages that some tests need and a fresh machine lacks, as root; otherwise those tests say SKIPPED:
# strace, and the programs of a PostgreSQL that tests may kill. No server is started.
set -eu

missing=
command -v strace >/dev/null || missing=strace
command -v initdb >/dev/null || ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || missing="$missing postgresql"
[ -n "$missing" ] || exit 0
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
	case $missing in *postgresql*)
		mkdir -p /etc/postgresql-common
		[ -e /etc/postgresql-common/createcluster.conf ] || echo 'create_main_cluster = false' >/etc/postgresql-common/createcluster.conf
		;;
	esac
	apt-get update -qq
	# shellcheck disable=SC2086
	DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing >/dev/null
else
	echo "packages.sh: no right to install$(printf ' %s' $missing); the tests that need it are SKIPPED" >&2
fi
