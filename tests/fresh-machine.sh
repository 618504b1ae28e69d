#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# tests/fresh-machine.sh [--plain] [--user] [COMMAND...]: proves that the README's commands need
# nothing but git and the checkout.  Makes a bare Debian in a scratch folder (bare-debian.sh),
# clones the committed state of this checkout into it, and runs `./dev COMMAND`
# there for each COMMAND (default: demo install uninstall test), as a new user of a new machine.
#
# --plain: in a chroot as a build machine has it, whose root is no mount point, and without /sys.
# --user: as a user without rights; root installs the packages before.
set -euo pipefail
checkout=$(cd "$(dirname "$0")/.." && pwd)
. "$checkout/tests/bare-debian.sh"
in_namespace "$@"
plain='' user=root
while [[ ${1-} == --* ]]; do
    case $1 in
    --plain) plain=plain ;;
    --user) user=ada ;;
    *) sed -n '4,/^set/s/^# \{0,1\}//p' "$0"; exit 2 ;;
    esac
    shift
done
[ $# -gt 0 ] || set -- demo install uninstall test
make_scratch
root=$scratch/root

bare_debian "$root" $plain
echo "==> It is $(. "$root/etc/os-release" && echo "$PRETTY_NAME")${plain:+, a plain chroot}, as $user"
echo "==> Installing git"
inside "$root" apt-get -q update >/dev/null
inside "$root" apt-get -q install -y --no-install-recommends git ca-certificates >/dev/null 2>&1
home=/root as=()
if [ $user != root ]; then
    home=/home/$user as=(setpriv --reuid "$user" --regid "$user" --init-groups env "HOME=$home" "USER=$user")
    inside "$root" useradd -m -s /bin/bash "$user"
fi
git clone -q --no-hardlinks "$checkout" "$root$home/mvld"
[ $user = root ] || inside "$root" sh -ec "cd $home/mvld && ./dev install-packages && chown -R $user: ."

for command in "$@"; do
    echo "==> ./dev $command"
    inside "$root" "${as[@]}" bash -c "cd $home/mvld && time ./dev $command" </dev/null
done
