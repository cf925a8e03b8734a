#!/bin/sh
# Makes a PostgreSQL for the tests possible and says in .task/postgres.env how to reach it.
#
#   scripts/postgres.sh          prepare, write .task/postgres.env (KEY='value' lines, for sh)
#
# In this order, each step skipped where there is nothing to do:
#   1. FORGE_TEST_DATABASE_URL names a server of yours: it is used and no container is made.
#   2. Docker answers: it is used. Otherwise, as root on a Debian system, Docker is installed and started by hand.
#   3. The public image is pulled, unless no registry answers: then an image is made from this system's own packages.
#
# Exit 0: ready. Exit 3: this machine cannot (not root and no Docker, or not Debian); one line on stderr says why.
set -eu

cd "$(dirname "$0")/.."
env_file=.task/postgres.env
public_image=${FORGE_TEST_POSTGRES_IMAGE:-postgres:15-alpine}
local_image=forge-test-postgres:local
docker_log=${TMPDIR:-/tmp}/forge-dockerd.log
pull_seconds=90

say() { echo "postgres.sh: $*" >&2; }
cannot() { rm -f "$env_file"; say "$*"; exit 3; }
mkdir -p .task

if [ -n "${FORGE_TEST_DATABASE_URL:-}" ]; then
	echo "FORGE_TEST_DATABASE_URL='$FORGE_TEST_DATABASE_URL'" >"$env_file"
	say "using the server of FORGE_TEST_DATABASE_URL"
	exit 0
fi

# One at a time, since two that install or start Docker together get in each other's way.
if [ -z "${FORGE_POSTGRES_LOCKED:-}" ] && command -v flock >/dev/null && [ "$(id -u)" = 0 ]; then
	FORGE_POSTGRES_LOCKED=1 exec flock -o -w 900 /tmp/forge-postgres.lock sh scripts/postgres.sh
fi

docker_answers() { command -v docker >/dev/null && timeout 20 docker info >/dev/null 2>&1; }
root_on_debian() { [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; }

# need PROGRAM PACKAGE... installs the packages unless the program is there.
need() {
	program=$1
	shift
	command -v "$program" >/dev/null && return 0
	say "installing $*"
	{
		apt-get update -qq
		DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@"
	} >>"$docker_log" 2>&1 || { tail -5 "$docker_log" >&2; cannot "could not install $*"; }
}

# start_docker OPTION... starts the daemon and waits until it answers. The daemon brings its own containerd and outlives
# this script.
start_docker() {
	if [ -f /var/run/docker.pid ] && ! grep -qs dockerd "/proc/$(cat /var/run/docker.pid)/cmdline"; then
		rm -f /var/run/docker.pid
	fi
	echo "--- dockerd $*" >>"$docker_log"
	setsid nohup dockerd "$@" >>"$docker_log" 2>&1 </dev/null &
	daemon=$!
	tries=0
	while [ $tries -lt 60 ]; do
		docker_answers && return 0
		kill -0 $daemon 2>/dev/null || return 1
		sleep 0.5
		tries=$((tries + 1))
	done
	kill $daemon 2>/dev/null || true
	wait $daemon 2>/dev/null || true
	return 1
}

started_here=no
if ! docker_answers; then
	root_on_debian || cannot "no Docker answers, and only root on a Debian system can be given one; set FORGE_TEST_DATABASE_URL to a server whose database name ends in _test"
	need dockerd docker.io
	need iptables iptables
	need docker docker.io
	say "starting Docker (log: $docker_log)"
	# A kernel without netfilter still publishes ports on 127.0.0.1 through docker-proxy; a folder that overlayfs cannot
	# use still works with vfs, slower.
	start_docker || start_docker --iptables=false || start_docker --storage-driver=vfs ||
		start_docker --storage-driver=vfs --iptables=false || {
		tail -5 "$docker_log" >&2
		cannot "Docker could not be started"
	}
	started_here=yes
fi

has_image() { docker image inspect "$1" >/dev/null 2>&1; }

# debian_sources prints this system's own apt sources of its release, so that the image comes from where its packages do.
debian_sources() {
	for file in /etc/apt/sources.list.d/*.sources; do
		[ -f "$file" ] && awk -v RS= -v ORS='\n\n' -v code="$1" '$0 ~ ("(^|\n)Suites:[^\n]*" code)' "$file"
	done
}
debian_lines() {
	for file in /etc/apt/sources.list /etc/apt/sources.list.d/*.list; do
		[ -f "$file" ] && grep -E "^deb .*[[:space:]]$1[-[:alnum:]]*[[:space:]]+main" "$file"
	done
	:
}

make_image() {
	need mmdebstrap mmdebstrap
	work=$(mktemp -d)
	trap 'rm -rf "$work"' EXIT
	code=$(. /etc/os-release && echo "$VERSION_CODENAME")
	debian_sources "$code" >"$work/own.sources"
	debian_lines "$code" >"$work/own.list"
	set --
	[ -s "$work/own.sources" ] && set -- "$@" "$work/own.sources"
	[ -s "$work/own.list" ] && set -- "$@" "$work/own.list"
	mkdir "$work/files"
	cp scripts/postgres-entrypoint.sh "$work/files/entrypoint"
	chmod 755 "$work/files/entrypoint"
	mmdebstrap --variant=minbase --include=postgresql \
		--dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-exclude=/usr/share/man/*' \
		--dpkgopt='path-exclude=/usr/share/locale/*' \
		--customize-hook="copy-in $work/files/entrypoint /" \
		--customize-hook='rm -rf "$1"/var/lib/postgresql/*/main "$1"/etc/postgresql/*/main' \
		"$code" "$work/image.tar" "$@" >>"$docker_log" 2>&1 || { tail -5 "$docker_log" >&2; cannot "could not make the image"; }
	docker import --change 'ENTRYPOINT ["/entrypoint"]' --change 'CMD ["postgres"]' --change 'EXPOSE 5432' \
		"$work/image.tar" "$local_image" >>"$docker_log"
}

if has_image "$public_image"; then
	image=$public_image
elif has_image "$local_image"; then
	image=$local_image
elif say "pulling $public_image" && timeout $pull_seconds docker pull -q "$public_image" >>"$docker_log" 2>&1; then
	image=$public_image
elif root_on_debian; then
	say "no registry gave $public_image; making $local_image from this system's packages"
	make_image
	image=$local_image
else
	cannot "no registry gave $public_image, and only root on a Debian system can make one"
fi

{
	echo "FORGE_TEST_POSTGRES_IMAGE='$image'"
	[ -n "${DOCKER_HOST:-}" ] && echo "DOCKER_HOST='$DOCKER_HOST'"
	# Without a registry the helper container that cleans up after tests cannot be had; tests stop their own.
	if [ $started_here = yes ] || [ "$image" = "$local_image" ]; then
		echo "TESTCONTAINERS_RYUK_DISABLED='true'"
		echo "TESTCONTAINERS_HOST_OVERRIDE='127.0.0.1'"
	fi
} >"$env_file"
say "ready: $image"
