#!/bin/sh
# Installs the Debian packages that some tests need and a fresh machine lacks, as root; otherwise those tests say SKIPPED.
set -eu

command -v strace >/dev/null && exit 0
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
	apt-get update -qq
	DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends strace >/dev/null
else
	echo "packages.sh: no strace and no right to install it; the test that needs it is SKIPPED" >&2
fi
