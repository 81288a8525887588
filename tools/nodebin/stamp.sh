#!/bin/sh
# stamp.sh ARCH: prints a checksum of all sources in this repository that go into the programs of nodes of an architecture.
set -eu
top=$(pwd)/
{
	GOOS=linux GOARCH=$1 "${GO:-go}" list -deps -f '{{if .Module}}{{if .Module.Main}}{{$d := .Dir}}{{range .GoFiles}}{{$d}}/{{.}}
{{end}}{{range .EmbedFiles}}{{$d}}/{{.}}
{{end}}{{end}}{{end}}' ./tools/nodebin/node ./tools/nodebin/machine ./tools/nodebin/shim ./tools/nodebin/nodetool ./tools/nodebin/guest
	find "${top}tools/nodebin" -type f ! -name '*_test.go'
	printf '%s\n' "${top}go.mod" "${top}go.sum"
} | sed "s|^$top||" | grep . | LC_ALL=C sort -u | xargs sha256sum | sha256sum | cut -d' ' -f1
