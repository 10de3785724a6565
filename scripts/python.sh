# Sourced by ./up, ./down and ./test with $here, the top of the tree, and $lock, the name of a file in requirements/. Sets
# $python to an interpreter that has everything in that file, and PYTHONPATH to this tree. Needs only what a fresh Debian
# or Ubuntu has: sh, root, apt.
#
# The environment is kept in the cache under the hash of what it is made from, so that it is made once.

cache=${OPENSTACK_OPERATOR_CACHE:-/var/cache/openstack-operator}
requirements=$here/requirements/$lock.txt

say() { printf '%s\n' "$*" >&2; }
fail() { say "$0: $*"; exit 1; }

# Whether the machine's Python is new enough and can make environments.
python_is_there() {
    python3 -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null
}

if ! python_is_there; then
    [ "$(id -u)" = 0 ] || fail "python3 3.11 or later with venv is missing, and installing it needs root"
    say "installing packages: ca-certificates python3 python3-venv"
    export DEBIAN_FRONTEND=noninteractive
    install() { apt-get -y -qq --no-install-recommends install ca-certificates python3 python3-venv >&2; }
    install || { apt-get -qq update >&2 && install; } || fail "apt-get cannot install python3"
    python_is_there || fail "python3 here is $(python3 --version 2>&1), and 3.11 or later is needed"
fi

key=$( { cat "$requirements"; python3 -c 'import sys; print(sys.version, sys.executable)'; } | sha256sum | cut -c1-16)
environment=$cache/venv/$lock-$key
python=$environment/bin/python
if [ ! -e "$environment/complete" ]; then
    mkdir -p "$cache/venv" || fail "cannot write to $cache: root, or OPENSTACK_OPERATOR_CACHE, is needed"
    (
        # One at a time; whoever waited finds it made.
        flock 9
        [ -e "$environment/complete" ] && exit 0
        set -e
        say "making the Python environment of requirements/$lock.txt (once)"
        rm -rf "$environment"
        python3 -m venv "$environment"
        "$python" -m pip --disable-pip-version-check install --quiet --require-hashes --no-deps -r "$requirements"
        # Commands for the PATH: the tree itself is not installed, it is run from where it is.
        printf '#!/bin/sh\nPYTHONPATH=%s exec %s -m openstack_operator "$@"\n' "$here/src" "$python" \
            > "$environment/bin/openstack-operator"
        chmod 755 "$environment/bin/openstack-operator"
        touch "$environment/complete"
    ) 9> "$cache/venv/.lock"
    [ -e "$environment/complete" ] || fail "the Python environment cannot be made"
fi
export PYTHONPATH="$here/src"
