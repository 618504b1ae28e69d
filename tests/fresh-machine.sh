#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# tests/fresh-machine.sh [COMMAND...]: proves that the README's commands need
# nothing but git and the checkout.  Makes a bare Debian in a scratch folder (bare-debian.sh),
# clones the committed state of this checkout into it, and runs `./dev COMMAND`
# there for each COMMAND (default: test demo), as a new user of a new machine.
set -euo pipefail
checkout=$(cd "$(dirname "$0")/.." && pwd)
[ $# -gt 0 ] || set -- test demo
. "$checkout/tests/bare-debian.sh"
in_namespace "$@"
make_scratch

bare_debian "$scratch/root"
echo "==> It is $(. "$scratch/root/etc/os-release" && echo "$PRETTY_NAME")"
echo "==> Installing git"
inside "$scratch/root" apt-get -q update >/dev/null
inside "$scratch/root" apt-get -q install -y --no-install-recommends git ca-certificates >/dev/null 2>&1
git clone -q --no-hardlinks "$checkout" "$scratch/root/root/mvld"

for command in "$@"; do
    echo "==> ./dev $command"
    inside "$scratch/root" bash -c "cd /root/mvld && ./dev $command" </dev/null
done
