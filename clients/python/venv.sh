#!/bin/sh
# Makes the environment for one version of the SDK, once, and prints its folder: clients/python/venv.sh 2.55.0
#
# Exit 3: this machine cannot have one; one line on stderr says why. PYTHON names the interpreter (3.11 or newer),
# FORGE_PYTHON_CACHE where environments are kept (default: a folder of the system's temp folder).
set -eu
here=$(cd "$(dirname "$0")" && pwd)
cache=${FORGE_PYTHON_CACHE:-${TMPDIR:-/tmp}/forge-python}
python=${PYTHON:-python3}
wanted=$here/tests/requirements-$1.txt
env=$cache/$1

"$python" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { echo "Python 3.11 with venv is missing" >&2; exit 3; }
mkdir -p "$cache"
# One at a time: two clones of the project share the folder.
if [ -z "${FORGE_VENV_LOCKED:-}" ] && command -v flock >/dev/null; then
	FORGE_VENV_LOCKED=1 exec flock -o -w 900 "$cache/lock" sh "$here/venv.sh" "$1"
fi
if ! cmp -s "$wanted" "$env/requirements.txt"; then
	rm -rf "$env"
	"$python" -m venv "$env" >&2
	"$env/bin/pip" install --quiet --disable-pip-version-check --no-deps -r "$wanted" >&2 || { rm -rf "$env"; echo "no package index gave what $wanted names" >&2; exit 3; }
	"$env/bin/pip" check >/dev/null
	cp "$wanted" "$env/requirements.txt"
fi
echo "$env"
