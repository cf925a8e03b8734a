#!/bin/sh
# Sends what /openapi.json allows, and much that it does not, to a real `forge serve`, and fails on a server error or on an
# answer that the document does not describe. Needs Go, Python 3.11 or newer and a package index; without Python or the index
# it is skipped, and fails under CI=true.
#
#   scripts/schemathesis.sh            a short run on one real run, as ./task test:python does
#   scripts/schemathesis.sh 500        so many examples for each operation, then as many with anything for an id
set -eu
cd "$(dirname "$0")/.."
examples=${1:-4}
pinned=4.32.5
env=.task/schemathesis-$pinned
python=${PYTHON:-python3}

missing() {
	[ "${CI:-}" != true ] || { echo "$1" >&2; exit 1; }
	echo "schemathesis: SKIPPED: $1" >&2
	exit 0
}

"$python" -c 'import sys, venv; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || missing "Python 3.11 with venv is missing"
if [ ! -x "$env/bin/schemathesis" ]; then
	rm -rf "$env"
	"$python" -m venv "$env"
	"$env/bin/pip" install --quiet --disable-pip-version-check "schemathesis==$pinned" || { rm -rf "$env"; missing "no package index gave schemathesis $pinned"; }
fi

work=$(mktemp -d)
server=
finish() {
	[ -z "$server" ] || kill "$server" 2>/dev/null || true
	[ -z "$server" ] || wait "$server" 2>/dev/null || true
	rm -rf "$work"
}
trap finish EXIT
go build -o "$work/forge" ./cmd/forge
"$work/forge" factory create fuzz --administrator everybody --fixture --store "$work/forge.db" >"$work/token" 2>/dev/null
FORGE_TOKEN=$(cat "$work/token")
export FORGE_TOKEN
"$work/forge" serve --store "$work/forge.db" --listen 127.0.0.1:0 >"$work/out" 2>"$work/log" &
server=$!
tries=0
until grep -q '^listening on ' "$work/out"; do
	tries=$((tries + 1))
	kill -0 "$server" 2>/dev/null && [ $tries -lt 600 ] || { cat "$work/log" >&2; exit 1; }
	sleep 0.1
done
FORGE_SERVER=$(sed -n 's/^listening on //p' "$work/out")
export FORGE_SERVER
"$work/forge" principal put everybody --role administrator --role operator --role reader --role worker >/dev/null 2>&1

go run ./scripts/heldrun nightly

# At first every operation on one real run, which stays as it is: nothing here may end it. Then anything.
printf '[parameters]\nrun_id = "nightly"\n' >"$work/one-run.toml"
: >"$work/any.toml"
status=0
send() {
	"$env/bin/schemathesis" --config-file "$work/$1" run "$FORGE_SERVER/openapi.json" --header "Authorization: Bearer $FORGE_TOKEN" --seed 1 \
		--max-examples "$examples" --phases examples,coverage,fuzzing --request-timeout 60 --no-color --output-truncate true \
		--checks not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance \
		$2 >>"$work/report" 2>&1 || status=$?
}
send one-run.toml "--exclude-path-regex (cancellations|principals|tokens)"
[ $# -eq 0 ] || send any.toml ""
if grep -q 'level=ERROR' "$work/log"; then
	grep 'level=ERROR' "$work/log" >&2
	status=1
fi
if [ $status -ne 0 ]; then
	cat "$work/report" >&2
	exit 1
fi
grep -E 'Tested:|generated,' "$work/report"
