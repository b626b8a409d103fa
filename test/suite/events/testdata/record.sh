#!/usr/bin/env bash
# Records what go test and gotestsum write for the packages of module/.
set -u
cd "$(dirname "$0")/module" || exit 1
export GOFLAGS=-trimpath CGO_ENABLED=0 UNSTEADY_MARKER

for package in passes fails panics nobuild exits empty; do
	go test -count=1 -vet=off -json ./$package > ../$package.jsonl
done
go test -vet=off -json -timeout 1s ./hangs > ../hangs.jsonl
go test -vet=off -json ./passes > /dev/null
go test -vet=off -json ./passes > ../cached.jsonl
go test -vet=off -json -count=3 -shuffle=on ./passes > ../repeated.jsonl

UNSTEADY_MARKER=$(mktemp -u)
go tool -modfile=../../../../gotestsum/go.mod gotestsum --jsonfile ../unsteady.jsonl \
	--rerun-fails=1 --rerun-fails-run-root-test --packages=./unsteady -- -vet=off
rm -f "$UNSTEADY_MARKER"
