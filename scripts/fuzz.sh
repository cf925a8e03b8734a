#!/bin/sh
# Runs every fuzz target of the module for the given seconds: scripts/fuzz.sh 60
set -eu
cd "$(dirname "$0")/.."
seconds=${1:?seconds}
count=0
for dir in $(git grep -l -E '^func Fuzz' -- '*_test.go' | xargs -n1 dirname | sort -u); do
	for target in $(grep -h -o -E '^func Fuzz[A-Za-z0-9_]*' "$dir"/*_test.go | cut -d' ' -f2 | sort -u); do
		echo "fuzz ./$dir $target"
		go test "./$dir" -run '^$' -fuzz "^$target\$" -fuzzminimizetime 1x -fuzztime "${seconds}s" -parallel 2
		count=$((count + 1))
	done
done
[ $count -gt 0 ] || { echo "no fuzz target was found" >&2; exit 1; }
echo "fuzz: $count targets, ${seconds}s each"
