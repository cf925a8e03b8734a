#!/bin/sh
# Writes all generated and golden files anew: go generate, then the tests named TestGolden... of each package that takes
# -update.
# With --check it fails if that changed any file, also an untracked one.
set -eu
cd "$(dirname "$0")/.."

state() { { git diff --no-ext-diff HEAD --; git ls-files -o --exclude-standard -z | xargs -0 -r sha256sum; } | sha256sum; }

before=$(state)
go generate ./...
for dir in $(git grep -l 'flag.Bool("update"' -- '*_test.go' | xargs -n1 dirname | sort -u); do
	# An unrelated failure in the package must not hide the files: the plain test run reports it. Without CI, which forbids to skip.
	env -u CI FORGE_TEST_POSTGRES_SKIP="golden files need no database" go test -count=1 -run Golden "./$dir" -update >/dev/null 2>&1 || echo "golden: tests of ./$dir fail with -update" >&2
done
[ "${1:-}" = --check ] || exit 0
if [ "$before" != "$(state)" ]; then
	git status --short >&2
	echo "golden: generated files are not what the code makes; run ./task golden and review the diff" >&2
	exit 1
fi
