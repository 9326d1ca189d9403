#!/bin/sh
# Names what this machine lacks for tests and demo, what follows from it, and how to get it.
# It fails only when nothing can run at all.
set -u

lacks() {
	echo "  This machine $1: $2." >&2
	[ $# -lt 3 ] || echo "    apt-get install $3" >&2
}

if ! command -v go >/dev/null; then
	lacks "has no Go" "nothing can be built; Go 1.26 or later is needed (https://go.dev/doc/install)"
	exit 1
fi
case $(go env GOVERSION) in
go1.2[0-5]* | go1.1* | go1.[0-9].* | go1.[0-9])
	lacks "has $(go env GOVERSION)" "Go 1.26 or later is needed (https://go.dev/doc/install)"
	exit 1
	;;
esac

command -v gcc >/dev/null || lacks "has no C compiler" "the tests run without the race detector" "gcc libc6-dev"
if [ "$(uname -s)" != Linux ]; then
	lacks "is not Linux" "kubelets are played, not real ones"
elif [ "$(id -u)" != 0 ]; then
	lacks "gives no root here" "kubelets are played, not real ones; run as root for real ones in network namespaces"
else
	missing=
	command -v ip >/dev/null || missing="$missing iproute2"
	command -v nsenter >/dev/null && command -v unshare >/dev/null || missing="$missing util-linux"
	command -v mount >/dev/null || missing="$missing mount"
	[ -z "$missing" ] || lacks "cannot make network namespaces" "kubelets are played, not real ones" "${missing# }"
fi
exit 0
