#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# tests/systemd.sh FOLDER: the Debian packages of this folder (`dpkg-buildpackage -b`) where systemd runs: on a
# Debian that QEMU boots.  redis-server and nginx are enabled for their units, upgraded, disabled, and mvld is purged.
#
# A failure means: a service does not answer; it does not run from its snapshot, or does so when it should not;
# `mvld status` says what is not so of it, or what it names does not mend that; enabled units are not renewed after
# packages change; or something is left behind a purge.
#
# Needs root, debootstrap, qemu-system-x86, e2fsprogs and a mirror; takes some ten minutes.
set -euo pipefail
checkout=$(cd "$(dirname "$0")/.." && pwd)
. "$checkout/tests/bare-debian.sh"
[ -f "$(echo "${1-}"/mvld_*_amd64.deb)" ] || { sed -n '4,/^set/s/^# \{0,1\}//p' "$0"; exit 2; }
in_namespace "$@"
packages=$(cd "$1" && pwd)
make_scratch
machine=$scratch/machine

# What runs there, when its services do.
walk() {
    cat <<'END'
failed() { echo "==> FAILED: $*"; mvld status; systemctl --failed --no-legend; journalctl -n 20 --no-pager -o cat; exit 1; }
process() { systemctl show -p MainPID --value "$1"; }
from_snapshot() { grep -q ' r-xp .* /var/cache/mvld/snapshots/' "/proc/$(process "$1")/maps"; }
under_mvld() { grep -q 'ld-mvld\|/var/cache/mvld' "/proc/$(process "$1")/maps"; }
trouble() { mvld status --json "$1" | grep -o '"remedy": *"[^"]*"' | sed 's/.*: *"//; s/"$//'; }
web() { { exec 3<>/dev/tcp/127.0.0.1/80 && printf 'GET / HTTP/1.0\r\n\r\n' >&3 && head -1 <&3 | grep -q ^HTTP; } 2>/dev/null; }
answer() {
    for _ in {1..100}; do
        ! [ "$(redis-cli ping 2>&1)" = PONG ] || ! (web) || return 0
        sleep 0.2
    done
    failed "$1: a service does not answer"
}
# well WHAT: both services answer, from their snapshots, and status has nothing to say.
well() {
    answer "$1"
    for unit in redis-server nginx; do from_snapshot $unit || failed "$1: $unit has no snapshot"; done
    mvld status || failed "$1: status"
}
# What status says of a unit that still runs without its snapshot mends that.
mended() {
    local said
    for unit in redis-server nginx; do
        ! from_snapshot $unit || failed "$1: $unit has the snapshot before it was restarted"
        said=$(trouble $unit)
        [ "$said" = "systemctl restart $unit.service" ] || failed "$1: status says of $unit: $said"
        $said
    done
    well "$1"
}
renewed() {
    for _ in {1..600}; do
        [ "$(systemctl is-active mvld-renew.service)" = activating ] || break
        sleep 0.5
    done
    [ "$(systemctl show -p Result --value mvld-renew.service)" = success ] || failed "$1: mvld-renew.service"
}
files() {
    find /etc /usr /lib/systemd /var/lib/systemd/deb-systemd-helper-enabled /var/cache/mvld /var/lib/mvld -xdev \
        -printf '%p %l\n' 2>/dev/null | grep -v '^/etc/ld.so.cache\|\.pyc \|__pycache__' | sort
}
install() { dpkg -i "$@" >/log 2>&1 || { cat /log; failed "dpkg -i $*"; }; }

answer "before"
files >/files
echo "==> Installing, and enabling two units"
install /packages/mvld/*.deb
mvld enable --unit redis-server redis-server && mvld enable --unit nginx nginx || failed "enable"
mended "enabled"
echo "==> A unit that may not map its snapshot"
mkdir -p /run/systemd/system/redis-server.service.d
printf '[Service]\nNoExecPaths=/var/cache/mvld/snapshots\n' >/run/systemd/system/redis-server.service.d/zz.conf
systemctl daemon-reload && systemctl restart redis-server
answer "confined"
! from_snapshot redis-server && [ "$(trouble redis-server)" = "systemctl restart redis-server.service" ] ||
    failed "status does not say that the unit's settings keep it from its snapshot"
rm /run/systemd/system/redis-server.service.d/zz.conf
systemctl daemon-reload && systemctl restart redis-server
well "as before"
echo "==> Upgrading the programs under their enabled units"
install /packages/programs/*.deb
answer "upgraded"
renewed "upgraded"
[ "$(systemctl show -p Nice --value mvld-renew.service)" = 19 ] || failed "mvld-renew.service is not nice"
for unit in redis-server nginx; do
    from_snapshot $unit || { said=$(trouble $unit); [ "$said" = "systemctl restart $unit.service" ] && $said || failed "upgraded: $said"; }
done
well "restarted"
echo "==> Upgrading mvld"
install /packages/later/*.deb
answer "another mvld"
renewed "another mvld"
systemctl restart redis-server nginx
well "restarted under another mvld"
echo "==> Disabling one unit, and purging"
mvld disable redis-server || failed "disable"
[ "$(systemctl show -p DropInPaths -p NeedDaemonReload --value redis-server | tr -d '\n')" = no ] || failed "systemd still has the drop-in"
systemctl restart redis-server
answer "disabled"
! under_mvld redis-server || failed "disabled: it is under mvld"
from_snapshot nginx || failed "the other unit is disabled, too"
dpkg --purge mvld libmultiverse1 >/log 2>&1 || { cat /log; failed "purge"; }
answer "purged"
systemctl restart redis-server nginx
answer "purged, and restarted"
! under_mvld nginx || failed "purged: nginx is under mvld"
files | diff /files - || failed "something is left, or gone"
[ -z "$(systemctl --failed --no-legend; systemctl list-units --all --no-legend 'mvld*')" ] || failed "units are left"
echo "==> All is well"
END
}

bare_debian "$machine"
echo "==> Installing systemd, a kernel and the services"
printf '#!/bin/sh\nexit 101\n' >"$machine/usr/sbin/policy-rc.d"
chmod 755 "$machine/usr/sbin/policy-rc.d"
mkdir -p "$machine"/packages/{mvld,programs,later}
depends=$(dpkg-deb -f "$packages"/mvld_*.deb Depends | tr , '\n' | sed 's/^ *//; s/ .*//' | grep -v '^libmultiverse1$')
inside "$machine" sh -ec 'apt-get -q update
    apt-get -q install -y --no-install-recommends systemd-sysv udev linux-image-cloud-amd64 initramfs-tools redis-server nginx-light $*
    cd /packages/programs && apt-get -q download redis-server redis-tools nginx nginx-common' - $depends >"$scratch/log" 2>&1 ||
    { tail "$scratch/log"; exit 1; }
rm "$machine/usr/sbin/policy-rc.d"
for package in "$packages"/{mvld,libmultiverse1}_*.deb; do
    cp "$package" "$machine/packages/mvld"
    cp "$package" "$machine/packages/later"
done
for package in "$machine"/packages/{later,programs}/*.deb; do newer_package "$package"; done
walk >"$machine/walk"
cat >"$machine/etc/systemd/system/walk.service" <<'END'
[Unit]
After=redis-server.service nginx.service
[Service]
Environment=HOME=/root
ExecStart=/bin/sh -c "bash /walk 2>&1 | cat >/dev/ttyS1; sync; poweroff -f"
END
ln -s /etc/systemd/system/walk.service "$machine/etc/systemd/system/multi-user.target.wants"
echo '/dev/vda / ext4 defaults 0 1' >"$machine/etc/fstab"
umount -R "$machine"/{proc,sys,dev}
mke2fs -q -t ext4 -d "$machine" "$scratch/disk" 4G
echo "==> Booting"
timeout 3000 qemu-system-x86_64 -machine pc -accel tcg -cpu max -smp 2 -m 1024 -nodefaults -display none -no-reboot \
    -kernel "$machine/vmlinuz" -initrd "$machine/initrd.img" -append "root=/dev/vda rw console=ttyS0 net.ifnames=0" \
    -drive "file=$scratch/disk,if=virtio,format=raw,cache=unsafe" -serial "file:$scratch/console" -serial "file:$scratch/said" \
    2>"$scratch/log" || { cat "$scratch/log"; tail "$scratch/console"; }
tr -d '\r' <"$scratch/said"
grep -q '^==> All is well' "$scratch/said" || { tail "$scratch/console"; exit 1; }
