#!/bin/sh
# SPDX-License-Identifier: MIT
#
# hidden.sh EMPTY FOLDER... -- COMMAND...: the command on a machine where nothing of mvld is installed, configured
# or cached.  Every test runs so (tests/meson.build): what a test makes and expects is then all that there is.
#
# Over each FOLDER that exists, and over the user's own, an empty one is mounted, which nobody else sees.  Who may
# not mount, as users other than root, gets the empty folder EMPTY for the user's own, and sees root's.
empty=$1 folders=
shift
while [ "$1" != -- ]; do
    folders="$folders $1"
    shift
done
shift
for own in "${XDG_CONFIG_HOME:-$HOME/.config}/mvld" "${XDG_CACHE_HOME:-$HOME/.cache}/mvld"; do
    folders="$folders $own"
done
there=
for folder in $folders; do
    [ ! -d "$folder" ] || there="$there $folder"
done
[ "$there" ] || exec "$@"
# shellcheck disable=SC2016 # for the inner shell
[ "$(id -u)" != 0 ] || ! unshare --mount --propagation private -- true 2>/dev/null ||
    exec unshare --mount --propagation private -- sh -ec '
        for folder in $0; do mount -t tmpfs -o mode=755 none "$folder"; done
        exec "$@"' "$there" "$@"
mkdir -p "$empty"
XDG_CONFIG_HOME=$empty XDG_CACHE_HOME=$empty exec "$@"
