# SPDX-License-Identifier: MIT
# shellcheck shell=bash
#
# bare-debian.sh: a bare Debian in a folder, for scripts that are sourced from tests/.  Needs root and
# debootstrap.  $MVLD_FRESH_RELEASE names another release than bookworm (Debian 12): bullseye, trixie.
# $MVLD_FRESH_BASE may name a folder to keep the bare system in between runs; a system that is there says which release
# it is.
release=${MVLD_FRESH_RELEASE:-bookworm}
if [ -n "${MVLD_FRESH_BASE-}" ] && [ -e "$MVLD_FRESH_BASE/etc/os-release" ]; then
    release=$(. "$MVLD_FRESH_BASE/etc/os-release" && echo "$VERSION_CODENAME")
fi

# in_namespace: all mounts of the script live in a private mount namespace.
in_namespace() {
    [ -n "${MVLD_FRESH_NAMESPACE-}" ] || exec env MVLD_FRESH_NAMESPACE=1 unshare --mount --propagation private "$0" "$@"
}

# make_scratch: $scratch, a folder that goes at the end, with all that is mounted in it.
make_scratch() {
    scratch=$(mktemp -d "${TMPDIR:-/tmp}/mvld-fresh.XXXXXX")
    trap 'cd /; for at in "$scratch"/*/{proc,dev,}; do umount -R "$at" 2>/dev/null || true; done
          rm -rf --one-file-system "$scratch"' EXIT
}

# bare_debian ROOT [plain]: makes it there.  A plain one is no mount point, so nothing inside can make a mount
# namespace; it has /proc and /dev, without which no compiler or shell works.
bare_debian() {
    local root=$1 plain=${2-} base=${MVLD_FRESH_BASE-}
    if [ -n "$base" ] && [ -d "$base/usr" ]; then
        echo "==> Copying the bare Debian from $base"
        cp -a "$base" "$root"
    else
        echo "==> Making a bare Debian, $release (debootstrap, about a minute)"
        debootstrap --variant=minbase "$release" "$root" >"$scratch/log" 2>&1 || { tail "$scratch/log"; exit 1; }
        [ -z "$base" ] || cp -a "$root" "$base"
    fi
    # A mount point of its own, so that programs inside may make mount namespaces.
    [ "$plain" ] || { mount --bind "$root" "$root"; mount -t sysfs sysfs "$root/sys"; }
    mount -t proc proc "$root/proc"
    mount --rbind /dev "$root/dev"
}

# inside ROOT COMMAND...
inside() {
    local root=$1
    shift
    chroot "$root" env -i HOME=/root PATH=/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin TERM=dumb CI=true \
        DEBIAN_FRONTEND=noninteractive "$@"
}

# newer_package DEB: in its place comes a later version, in which every file with a build-id has another one.
newer_package() {
    rm -rf "$scratch/newer"
    dpkg-deb -R "$1" "$scratch/newer"
    python3 - "$scratch/newer" <<'END'
import os, re, sys
root, = sys.argv[1:]
for folder, _, names in os.walk(root):
    for path in (os.path.join(folder, name) for name in names):
        if os.path.islink(path):
            continue
        with open(path, "rb+") as file:
            # ELF's note NT_GNU_BUILD_ID of 20 bytes: its first byte is another one.
            found = re.search(rb"\x04\0\0\0\x14\0\0\0\x03\0\0\0GNU\0", file.read(4096))
            if found:
                file.seek(found.end())
                byte, = file.read(1)
                file.seek(found.end())
                file.write(bytes([byte ^ 0xff]))
control = os.path.join(root, "DEBIAN/control")
text = open(control).read()
version = re.search("^Version: (.*)$", text, re.M)[1]
open(control, "w").write(text.replace(version, version + "+newer")) # also in what it depends on of its own source
sums = os.path.join(root, "DEBIAN/md5sums")
if os.path.exists(sums):
    os.remove(sums)
END
    rm "$1"
    dpkg-deb --root-owner-group -Znone -b "$scratch/newer" "${1%/*}" >/dev/null
}
