#!/bin/sh
# Usage: sh version.sh VERSION [NAME]
#
# Writes go-VERSION.mod and go-VERSION.sum, with which `go build -modfile` builds
# the renderer against that version of Gardener. Add the version to the list in
# ../shoot/versions.go as well.
#
# With the name "go" it writes go.mod and go.sum themselves, for the newest
# version. Before that, run it for the version that go.mod has been of.
set -e
version=$1 file=${2:-go-$1}

cat > "$file.mod" <<EOF
module github.com/loam-os/loam/test/gardener

go 1.26.0

require github.com/gardener/gardener $version

// Built from this module, too.
tool github.com/gardener/gardener/cmd/gardener-node-agent

// Gardener's own go.mod has a directory here.
replace github.com/gardener/gardener/pkg/apis => github.com/gardener/gardener/pkg/apis $version

// Gardener requires this version, which is on no module proxy.
exclude github.com/gardener/terminal-controller-manager v0.39.0
EOF
: > "$file.sum"
go mod tidy -modfile="$file.mod"
