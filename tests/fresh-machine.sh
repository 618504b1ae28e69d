#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# tests/fresh-machine.sh [COMMAND...]: proves that the README's commands need
# nothing but git and the checkout.  Makes a bare Debian in a scratch folder,
# clones the committed state of this checkout into it, and runs `./dev COMMAND`
# there for each COMMAND (default: test demo), as a new user of a new machine.
#
# Needs root and debootstrap.  All mounts live in a private mount namespace.
# MVLD_FRESH_RELEASE names another release than bookworm (Debian 12): bullseye, trixie.
# MVLD_FRESH_BASE may name a folder to keep the bare system in between runs, one a release.
set -euo pipefail
checkout=$(cd "$(dirname "$0")/.." && pwd)
[ $# -gt 0 ] || set -- test demo
release=${MVLD_FRESH_RELEASE:-bookworm}

if [ -z "${MVLD_FRESH_NAMESPACE-}" ]; then
    exec env MVLD_FRESH_NAMESPACE=1 unshare --mount --propagation private "$0" "$@"
fi

scratch=$(mktemp -d "${TMPDIR:-/tmp}/mvld-fresh.XXXXXX")
trap 'cd /; umount -R "$scratch/root" 2>/dev/null || true; rm -rf --one-file-system "$scratch"' EXIT

if [ -n "${MVLD_FRESH_BASE-}" ] && [ -d "$MVLD_FRESH_BASE/usr" ]; then
    echo "==> Copying the bare Debian from $MVLD_FRESH_BASE"
    cp -a "$MVLD_FRESH_BASE" "$scratch/root"
else
    echo "==> Making a bare Debian, $release (debootstrap, about a minute)"
    debootstrap --variant=minbase "$release" "$scratch/root" >"$scratch/log" 2>&1 ||
        { tail "$scratch/log"; exit 1; }
    [ -z "${MVLD_FRESH_BASE-}" ] || cp -a "$scratch/root" "$MVLD_FRESH_BASE"
fi
echo "==> It is $(. "$scratch/root/etc/os-release" && echo "$PRETTY_NAME")"
# A mount point of its own, so that programs inside may make mount namespaces.
mount --bind "$scratch/root" "$scratch/root"
mount -t proc proc "$scratch/root/proc"
mount -t sysfs sysfs "$scratch/root/sys"
mount --rbind /dev "$scratch/root/dev"

inside() {
    chroot "$scratch/root" env -i HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin TERM=dumb CI=true "$@"
}
echo "==> Installing git"
inside apt-get -q update >/dev/null
inside apt-get -q install -y --no-install-recommends git ca-certificates >/dev/null 2>&1
git clone -q --no-hardlinks "$checkout" "$scratch/root/root/mvld"

for command in "$@"; do
    echo "==> ./dev $command"
    inside bash -c "cd /root/mvld && ./dev $command" </dev/null
done
