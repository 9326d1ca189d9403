#!/bin/sh
# Builds the test bed's Kubernetes binary once and prints its path.
#
# The binary is kept outside the clone, under a name made of everything that goes into it, so that
# all clones on a machine share it and a changed version builds anew. Progress goes to stderr.
set -eu
cd "$(dirname "$0")"

version=$(go list -m -f '{{.Version}}' k8s.io/kubernetes)
key=$( (go version; cat build.sh go.mod go.sum main.go cri/*.go) | sha256sum | cut -c1-16)
dir=${XDG_CACHE_HOME:-$HOME/.cache}/cluster-api-csr-approver
bin=$dir/kubernetes-$version-$key
if [ -x "$bin" ]; then
	echo "$bin"
	exit 0
fi
mkdir -p "$dir"

# Of two that start at once, the second waits for the first's result.
if [ -z "${CSR_APPROVER_BUILD_LOCK:-}" ] && command -v flock >/dev/null; then
	CSR_APPROVER_BUILD_LOCK=held exec flock "$dir/lock" ./build.sh
fi

export CGO_ENABLED=0
minor=$(echo "$version" | cut -d. -f2)
stamp=k8s.io/component-base/version
flags="-s -w -X $stamp.gitVersion=$version -X $stamp.gitMajor=1 -X $stamp.gitMinor=$minor"

echo "Kubernetes $version is built from its Go module, once on this machine: 15 to 20 minutes on 2 cores with cold caches." >&2
echo "fetching its modules ..." >&2
go mod download 2>&1 | tail -n 5 >&2
total=$(go list -deps . | wc -l)

# A build that ends early must not leave a file that the next call would take for a finished one.
out=$(mktemp -d "$dir/build.XXXXXX")
trap 'rm -rf "$out"' EXIT
trap 'exit 1' INT TERM
# go build -v names each package that it compiles; what the build cache already holds is not named.
mkfifo "$out/log"
awk -v total="$total" '
	/^#|:[0-9]+:[0-9]+:|^go: / { print > "/dev/stderr"; next }
	{ if (++n % 50 == 0) { print "  compiled " n " of at most " total " packages" > "/dev/stderr"; fflush("/dev/stderr") } }
' <"$out/log" &
go build -v -ldflags "$flags" -o "$out/kubernetes" . 2>"$out/log" || { wait; echo "building Kubernetes failed" >&2; exit 1; }
wait
mv "$out/kubernetes" "$bin"
echo "built $bin" >&2
echo "$bin"
