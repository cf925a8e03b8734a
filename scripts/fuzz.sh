#!/bin/sh
# Runs every fuzz target of the module for a time or a number of inputs each: scripts/fuzz.sh 60s, scripts/fuzz.sh 2000x
set -eu
cd "$(dirname "$0")/.."
amount=${1:?60s or 2000x}
log=$(mktemp)
trap 'rm -f "$log"' EXIT
count=0
for dir in $(git grep -l -E '^func Fuzz' -- '*_test.go' | xargs -n1 dirname | sort -u); do
	for target in $(grep -h -o -E '^func Fuzz[A-Za-z0-9_]*' "$dir"/*_test.go | cut -d' ' -f2 | sort -u); do
		echo "fuzz ./$dir $target"
		if ! go test "./$dir" -run '^$' -fuzz "^$target\$" -fuzzminimizetime 1x -fuzztime "$amount" -parallel 2 >"$log" 2>&1; then
			cat "$log"
			# On a busy machine Go's coordinator takes its own end of time for a failure (golang/go#51484): a time that ran
			# out with no input written down has found nothing. A count of inputs has no such end.
			if ! grep -q 'context deadline exceeded' "$log" || grep -q -e 'Failing input' -e 'panic:' "$log"; then
				exit 1
			fi
		fi
		tail -1 "$log"
		count=$((count + 1))
	done
done
[ $count -gt 0 ] || { echo "no fuzz target was found" >&2; exit 1; }
echo "fuzz: $count targets, $amount each"
