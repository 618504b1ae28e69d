#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# tests/debian.sh: the Debian packages: builds them, and lives with them on a bare Debian (bare-debian.sh).
#
# A failure means: the packages depend on the folder they are built in; lintian has something to say; a file
# appears, changes or stays that no step explains; a program fails to start while mvld, the program, a library
# or glibc is upgraded; enabled programs are not renewed after packages change; or mvld is removed though a
# program needs it.
#
# Needs root, debootstrap and a mirror; takes some twenty minutes.  $MVLD_UPGRADES names another number of upgrades of
# mvld than 11, $MVLD_STARTERS of programs that start without pause meanwhile, $MVLD_KILLS of upgrades that are killed;
# $MVLD_PACKAGES a folder with packages that were built before, in one/ and of a later version in later/.
set -euo pipefail
checkout=$(cd "$(dirname "$0")/.." && pwd)
. "$checkout/tests/bare-debian.sh"
in_namespace "$@"
make_scratch
builder=$scratch/builder machine=$scratch/machine
upgrades=${MVLD_UPGRADES:-11} starters=${MVLD_STARTERS:-10} kills=${MVLD_KILLS:-10}
# What is enabled, and how each shows that it starts.
declare -A programs=([clang]="clang --version" [nginx]="nginx -v" [redis-server]="redis-server --version"
    [sqlite3]="sqlite3 :memory: select(6*7)" [own]="own") plainly

failed() {
    echo "==> FAILED: $*" >&2
    exit 1
}

# ---- packages ---------------------------------------------------------------------------

# tree FOLDER: the checkout, as it is, in this folder of the builder.
tree() {
    mkdir -p "$builder$1/mvld"
    (cd "$checkout" && git ls-files -co --exclude-standard | tar cf - -T -) | tar xf - -C "$builder$1/mvld"
    inside "$builder" sh -c "cd $1/mvld && debian/rules control"
}

build() {
    echo "==> Building in $1"
    inside "$builder" sh -c "cd $1/mvld && dpkg-buildpackage -b -us -uc >../log 2>&1" ||
        { tail -20 "$builder$1/log"; failed "the build in $1"; }
}

make_packages() {
    inside "$builder" apt-get -q update >/dev/null
    inside "$builder" apt-get -q install -y --no-install-recommends build-essential debhelper fakeroot lintian \
        >"$scratch/log" 2>&1 || { tail "$scratch/log"; failed "installing what builds packages"; }
    if [ -n "${MVLD_PACKAGES-}" ]; then
        cp -r "$MVLD_PACKAGES"/{one,later} "$builder"
        return
    fi
    tree /one
    tree /another/folder
    tree /later
    inside "$builder" apt-get -q build-dep -y --no-install-recommends /one/mvld >"$scratch/log" 2>&1 ||
        { tail "$scratch/log"; failed "installing what the build depends on"; }
    build /one
    build /another/folder
    for package in "$builder"/one/*.deb; do
        cmp "$package" "$builder/another/folder/${package##*/}" || failed "not reproducible: ${package##*/}"
    done
    inside "$builder" sh -c "lintian --allow-root --fail-on error,warning --suppress-tags bad-distribution-in-changes-file /one/*.changes" || failed "lintian"
    # The next version has another loader, so its snapshots are other ones.
    sed -i '1s/(\(.*\))/(\1+later)/' "$builder/later/mvld/debian/changelog"
    echo '__attribute__((used)) static const char later[] = "later";' >>"$builder/later/mvld/loader/start/start.c"
    build /later
}

# What a user has of the others: the README's program, and a pass of his own.
use_packages() {
    echo "==> Using the plugin and the passes' headers"
    rm -rf "$builder/one/mvld" "$builder/another"
    inside "$builder" sh -c 'apt-get -q install -y --no-install-recommends /one/*.deb' >"$scratch/log" 2>&1 ||
        { tail "$scratch/log"; failed "installing all packages"; }
    sed -n '/^#include <multiverse.h>/,/^```/{/^```/d;p}' "$checkout/README.md" >"$builder/root/hello.c"
    [ -s "$builder/root/hello.c" ] || failed "README.md has no hello.c"
    inside "$builder" sh -ec 'cd /root
        gcc -O2 -fplugin=multiverse hello.c $(pkg-config --cflags --libs multiverse) -o hello
        ./hello
        mvld run --set polite=1 -- ./hello | grep -c "^Good morning"
        mkdir passes
        cc $(pkg-config --cflags --libs mvld-pass) -o passes/count.so /usr/share/doc/mvld/passes/example/count.c
        mvld passes passes | grep "^count:"' || failed "what the README does"
}

# ---- the machine ------------------------------------------------------------------------

# files: every file of the machine, but for what dpkg and apt keep of their own.
files() {
    python3 - "$machine" <<'END'
import hashlib, os, stat, sys
root = sys.argv[1]
own = {"proc", "sys", "dev", "run", "tmp", "packages", "var/log", "var/lib/dpkg", "var/lib/apt", "var/cache/apt",
       "var/cache/ldconfig", "var/cache/debconf", "etc/ld.so.cache", "var/lib/systemd"}
for folder, folders, names in os.walk(root):
    folders[:] = sorted(n for n in folders if os.path.relpath(os.path.join(folder, n), root) not in own)
    for name in sorted(folders + names):
        path = os.path.join(folder, name)
        st, short = os.lstat(path), os.path.relpath(path, root)
        what = ""
        if stat.S_ISREG(st.st_mode) and short not in own:
            with open(path, "rb") as file:
                what = f"{st.st_mtime_ns} {hashlib.sha256(file.read()).hexdigest()}"
        elif stat.S_ISLNK(st.st_mode):
            what = os.readlink(path)
        if short not in own:
            print(stat.filemode(st.st_mode), st.st_uid, st.st_gid, what, "./" + short)
END
}

# same NAME NAME WHAT [EXCEPT]: what differs of two lists of files, but for those that mvld's packages own
# ($scratch/own), and those that EXCEPT matches.
same() {
    local differs
    differs=$(diff "$scratch/$1" "$scratch/$2" | grep '^[<>]' | grep -Ev -- "${4:-^$}" |
        awk 'NR == FNR { own[$0]; next } !($NF in own)' "$scratch/own" - || true)
    [ -z "$differs" ] || { echo "$differs" | head -20; failed "$3: these files differ"; }
}

says() { inside "$machine" ${programs[$1]} 2>&1; }

# starts WHAT: each program says what it said before mvld came.
starts() {
    local program
    for program in "${!programs[@]}"; do
        [ "$(says "$program")" = "${plainly[$program]}" ] || { says "$program"; failed "$1: $program"; }
    done
}

# from_snapshot: sqlite3 has mapped code of its snapshot.
from_snapshot() {
    inside "$machine" sqlite3 :memory: '.shell cat /proc/$PPID/maps' | grep ' /var/cache/mvld/snapshots/' >/dev/null
}

# renewed WHAT: before long all is as `mvld status` wants it.
renewed() {
    for _ in {1..1200}; do
        ! inside "$machine" mvld status >"$scratch/status" 2>&1 || { from_snapshot || failed "$1: no snapshot"; return 0; }
        sleep 0.5
    done
    cat "$scratch/status"
    failed "$1: enabled programs are not renewed"
}

apt() { inside "$machine" apt-get -q -y --no-install-recommends "$@" >"$scratch/log" 2>&1; }

install() { apt install --allow-downgrades --reinstall "$@" || { tail "$scratch/log"; failed "apt install $*"; }; }

dpkg_install() {
    inside "$machine" dpkg -i "$@" >"$scratch/log" 2>&1 || { tail "$scratch/log"; failed "dpkg -i $*"; }
}

# killed_upgrade DEB...: dpkg and all that it runs are killed at some moment.  Each of mvld's files is one version's.
# What ended before is no killed one: $killed counts those that SIGKILL ended.
killed_upgrade() {
    local session file status=0
    setsid chroot "$machine" env -i HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin dpkg -i "$@" >"$scratch/log" 2>&1 &
    session=$!
    sleep "$(printf 0.%03d $((RANDOM % 1000)))"
    kill -KILL -- "-$session" 2>/dev/null || true
    wait "$session" 2>/dev/null || status=$?
    [ $status != $((128 + 9)) ] || killed=$((killed + 1))
    while read -r file; do
        cmp -s "$scratch/first$file" "$machine$file" || cmp -s "$scratch/later$file" "$machine$file" ||
            failed "a killed upgrade: $file is of no version"
    done < <(cd "$scratch/first" && find . -type f -printf '/%P\n')
}

# newer FOLDER PACKAGE...: later versions of packages of the release, in this folder of the machine (newer_package).
newer() {
    local folder=$1 package version
    shift
    mkdir -p "$machine$folder"
    for package in "$@"; do
        version=$(inside "$machine" dpkg-query -W -f='${Version}' "$package")
        inside "$machine" sh -c "cd $folder && apt-get -q download $package=$version" >"$scratch/log" 2>&1 ||
            { tail "$scratch/log"; failed "apt-get download $package"; }
        newer_package "$machine$folder/${package}_"*.deb
    done
}

# upgraded WHAT PACKAGE...: later versions of these come under programs that start, and enabled programs are renewed.
upgraded() {
    local what=$1
    shift
    echo "==> Upgrading $what under $starters programs"
    newer "/packages/$what" "$@"
    load
    install $(cd "$machine" && printf "/%s " "packages/$what"/*.deb)
    quiet "upgrading $what"
    renewed "$what upgraded"
    starts "$what upgraded"
}

# originals PACKAGE...: what they were before `upgraded`, as apt is told.
originals() {
    for package in "$@"; do
        inside "$machine" dpkg-query -W -f='${Package}=${Version} ' "$package" | sed 's/+newer//'
    done
}

# load: programs start without pause until `quiet`, $starters at a time, and must say what they always say.
load() {
    rm -f "$scratch/enough" "$scratch"/count.*
    for ((i = 0; i < starters; i++)); do
        (n=0 wrong=0
         while [ ! -e "$scratch/enough" ]; do
             for program in "${!programs[@]}"; do
                 status=0
                 said=$(says "$program") || status=$?
                 [ "$said" = "${plainly[$program]}" ] ||
                     { echo "$(date +%T) $program: status $status: $said" >&2; wrong=$((wrong + 1)); }
                 n=$((n + 1))
             done
         done
         echo "$n $wrong" >"$scratch/count.$i") &
    done
}

quiet() {
    touch "$scratch/enough"
    wait
    cat "$scratch"/count.* | awk '{ n += $1; wrong += $2 } END { print "    " n " starts, " wrong " failed"; exit wrong || !n }' ||
        failed "$1: starts"
}

bare_debian "$builder"
bare_debian "$machine"
inside "$machine" apt-get -q update >/dev/null
make_packages

echo "==> Installing"
mkdir "$machine/packages"
cp "$builder"/one/{mvld,libmultiverse1}_*.deb "$machine/packages"
mkdir "$machine/packages/later"
cp "$builder"/later/{mvld,libmultiverse1}_*.deb "$machine/packages/later"
first=$(cd "$machine" && printf "/%s " packages/*.deb) later=$(cd "$machine" && printf "/%s " packages/later/*.deb)
for package in "$builder"/one/mvld_*.deb; do dpkg-deb -x "$package" "$scratch/first"; done
for package in "$builder"/later/mvld_*.deb; do dpkg-deb -x "$package" "$scratch/later"; done
printf '#!/bin/sh\nexit 101\n' >"$machine/usr/sbin/policy-rc.d"
chmod 755 "$machine/usr/sbin/policy-rc.d"
depends=$(for p in "$builder"/one/mvld_*.deb; do dpkg-deb -f "$p" Depends; done | tr , '\n' |
    sed 's/^ *//; s/ .*//' | grep -v '^libmultiverse1$')
install clang nginx redis-server sqlite3 $depends
inside "$builder" sh -c 'echo "int puts(const char *); int main(void) { return puts(\"42\") < 0; }" >/root/own.c && gcc -O2 -o /root/own /root/own.c'
cp "$builder/root/own" "$machine/usr/local/bin/own"
for program in "${!programs[@]}"; do
    plainly[$program]=$(says "$program") || failed "$program does not start plainly"
done
files >"$scratch/without"
install $first
files >"$scratch/installed"
inside "$machine" sh -c 'cat /var/lib/dpkg/info/mvld.list /var/lib/dpkg/info/libmultiverse1*.list' |
    sed 's|^/lib/|/usr/lib/|; s/^/./' >"$scratch/own" # where /lib is a link
same without installed "installing"
starts "installed"

echo "==> Trying"
for program in "${!programs[@]}"; do
    status=0
    inside "$machine" mvld try --seconds 5 ${programs[$program]} >"$scratch/log" 2>&1 || status=$?
    [ $status = 0 ] || [ $status = 3 ] || { cat "$scratch/log"; failed "mvld try $program"; }
    grep -E ': (worth it|leave it)' "$scratch/log" || { cat "$scratch/log"; failed "mvld try $program gives no advice"; }
done
files >"$scratch/tried"
same installed tried "trying"
starts "tried"

echo "==> Enabling ${!programs[*]}"
inside "$machine" mvld enable --by set-interp clang nginx own sqlite3 >/dev/null
inside "$machine" mvld enable --by wrapper redis-server >/dev/null
renewed "enabled"
[ "$(wc -l <"$scratch/status")" = ${#programs[@]} ] || { cat "$scratch/status"; failed "mvld status lists others"; }
starts "enabled"
files >"$scratch/enabled"
same installed enabled "enabling" \
    '/(llvm-[0-9]*|usr|local)/bin/(clang|own|sqlite3)$|/sbin/nginx$|/usr/local/bin/redis-server$|/etc/mvld/|/var/(lib|cache)/mvld'

echo "==> Upgrading mvld $upgrades times under $starters programs"
load
for ((n = 0; n < upgrades; n++)); do
    dpkg_install $([ $((n % 2)) = 0 ] && echo $later || echo $first)
done
dpkg_install $later
quiet "upgrading mvld"
renewed "another mvld"

echo "==> Killing $kills upgrades under $starters programs"
load
killed=0
for ((n = 0; n < kills; n++)); do
    killed_upgrade $([ $((n % 2)) = 0 ] && echo $first || echo $later)
done
dpkg_install $later
inside "$machine" dpkg --configure -a >"$scratch/log" # libc-bin, whose trigger may have been killed
quiet "killed upgrades"
echo "    $killed of $kills were killed before their end"
[ "$killed" -gt 0 ] || failed "no upgrade was killed before its end"
left=$(inside "$machine" dpkg --audit; inside "$machine" dpkg --verify mvld)
[ -z "$left" ] || failed "killed upgrades leave something: $left"
renewed "killed upgrades"

upgraded library zlib1g
upgraded program sqlite3 libsqlite3-0
upgraded glibc libc6 libc6-dev libc-bin libc-dev-bin
inside "$machine" mvld doctor --all >"$scratch/log" || true
grep -q -- "-> rebuild mvld" "$scratch/log" || failed "doctor does not say that glibc is another one"

echo "==> Disabling"
inside "$machine" mvld disable --all
starts "disabled"
install $first $(originals zlib1g libsqlite3-0 sqlite3 libc6 libc6-dev libc-bin libc-dev-bin)
files >"$scratch/disabled"
same installed disabled "disabling"

echo "==> Removing"
inside "$machine" useradd -m ada
inside "$machine" install -o ada -g ada /usr/bin/sqlite3 /home/ada/own
files >"$scratch/plain"
inside "$machine" mvld enable --by set-interp "${!programs[@]}" >/dev/null
inside "$machine" setpriv --reuid ada --regid ada --init-groups --reset-env mvld set-interp /home/ada/own ||
    failed "a program of a user"
echo '; mine' >"$machine/etc/mvld/apps.d/mine.conf"
mount --bind "$machine/usr/bin/sqlite3" "$machine/usr/bin/sqlite3" # nothing can be renamed over it
! apt remove mvld || failed "mvld is removed, and sqlite3 needs it"
grep -q '^/usr/bin/sqlite3: ' "$scratch/log" || { cat "$scratch/log"; failed "the refusal does not name sqlite3"; }
starts "a removal that was refused"
umount "$machine/usr/bin/sqlite3"
apt purge mvld libmultiverse1 || { tail "$scratch/log"; failed "purging"; }
starts "purged"
cmp "$machine/home/ada/own" "$machine/usr/bin/sqlite3" || failed "a user's program is not what it was"
files >"$scratch/purged"
users='/etc/(passwd|group|g?shadow|sub[ug]id)-?$|/home/ada'
same plain purged "purging" "/etc/mvld/apps.d/mine.conf$|$users"
[ -e "$machine/etc/mvld/apps.d/mine.conf" ] || failed "a user's file is gone"
rm -r "$machine/etc/mvld"
inside "$machine" userdel -r ada 2>/dev/null
files >"$scratch/purged"
: >"$scratch/own"
same without purged "purging" "$users"

# The next release's glibc is not one that mvld was built for: mvld goes first, and restores its programs.
next_release() {
    echo "==> Upgrading to $1"
    apt autoremove clang nginx || { tail "$scratch/log"; failed "removing what takes long to upgrade"; }
    install $first
    inside "$machine" mvld enable redis-server sqlite3 own >/dev/null
    sed -i "s/$release/$1/" "$machine/etc/apt/sources.list"
    { apt update && apt dist-upgrade; } || { tail "$scratch/log"; failed "upgrading to $1"; }
    ! inside "$machine" dpkg-query -W -f='${Status}' mvld | grep 'ok installed' || failed "mvld stays with another glibc"
    for program in redis-server sqlite3 own; do
        says "$program" >/dev/null || failed "after the upgrade to $1: $program"
    done
    [ -z "$(inside "$machine" dpkg --verify redis-tools sqlite3)" ] || failed "after the upgrade to $1: not as packaged"
    cmp "$builder/root/own" "$machine/usr/local/bin/own" || failed "after the upgrade to $1: own"
}

use_packages
[ "$release" != bookworm ] || next_release trixie
echo "==> All is well"
