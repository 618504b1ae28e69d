# SPDX-License-Identifier: MIT
"""Other rights than the caller's, sandboxes, other roots and namespaces, filters of system calls."""
from stock.case import Case

# Its own filter: everything but a list is refused (EPERM), or kills, as sandboxes do it.  mvld
# itself makes calls that the host loader does not (loader/process/limits.c).
SECCOMP = r"""
cat > f.c <<'END'
#include <seccomp.h>
#include <stdio.h>
#include <unistd.h>
int main(int c, char **v) {
    static const char *const allowed[] = {"read", "write", "writev", "openat", "close", "newfstatat", "fstat", "mmap", "munmap",
        "mprotect", "brk", "execve", "exit_group", "arch_prctl", "access", "pread64", "set_tid_address", "set_robust_list", "rseq",
        "prlimit64", "getrandom", "ioctl", "lseek", "fadvise64", "getdents64", "statx", "rt_sigaction", "rt_sigprocmask", "rt_sigreturn", "futex",
        "clone", "clone3", "vfork", "wait4", "getpid", "dup2", "fcntl", "statfs", "prctl", "getuid", "geteuid", "getgid", "getegid",
        "getppid", "sigaltstack", "sysinfo", "madvise", "readlink", "readlinkat", "faccessat", "pipe2", "gettid", "sched_getaffinity", "uname", "getcwd"};
    scmp_filter_ctx f = seccomp_init(v[1][0] == 'k' ? SCMP_ACT_KILL_PROCESS : SCMP_ACT_ERRNO(1));
    for (unsigned i = 0; i < sizeof allowed / sizeof *allowed; i++)
        if (seccomp_rule_add(f, SCMP_ACT_ALLOW, seccomp_syscall_resolve_name(allowed[i]), 0)) return 9;
    if (c < 3 || seccomp_load(f)) return 8;
    execv(v[2], v + 2); return 7;
}
END
gcc -o f f.c -lseccomp || exit 1
"""

CASES = [
    Case("seccomp", "a filter that refuses all but 56 system calls, and one that kills, over stock programs",
         ("libseccomp-dev", "gcc", "python3"), ("gcc", "python3", "/usr/include/seccomp.h"), ("filtered 499500", "status 159"),
         under=("f", "ls", "sh", "python3", "sort"), filtered=("sort",), script=SECCOMP + r"""
./f errno /bin/ls f.c; ./f errno /bin/sh -c 'seq 3 | sort -r; echo x > g; cat g'; ./f errno /usr/bin/python3 -c 'print("filtered", sum(range(1000)))'
./f errno /bin/mkdir d; echo "status $?"; ./f kill /bin/ls f.c; echo "status $?"; ./f kill /bin/sh -c 'cat f.c | wc -l'
./f kill /bin/mkdir d; echo "status $?"; ./f kill /usr/bin/sort -r f.c | sha256sum
"""),
    Case("file", "file(1) with its own sandbox, on objects, archives, images, scripts; many at once",
         ("file", "gcc"), ("file",), ("ELF 64-bit LSB pie executable", "gzip compressed"), script=r"""
cp /bin/true t; gzip -nc t > t.gz; printf '\211PNG\r\n\032\n\0\0\0\rIHDR\0\0\0\1\0\0\0\1\10\2\0\0\0' > p.png; printf '#!/usr/bin/perl\n' > s; tar cf a.tar s
file t t.gz p.png s a.tar /etc/debian_version /dev/null /usr/bin /nonexistent; echo "status $?"; file -bi t.gz p.png
find /usr/lib/x86_64-linux-gnu -maxdepth 1 -name '*.so*' | sort | file -f - | sha256sum; file -z t.gz; file -m /nonexistent t; echo "status $?"
"""),
    Case("man", "man, its formatters under their seccomp sandbox, mandb's index of three pages",
         ("man-db", "groff-base"), ("man", "groff", "mandb"), ("mvld-test(1) ", "mvld-test (1)"), script=r"""
mkdir -p m/man1 m/man7; for n in mvld-test other; do printf '.TH %s 1 2020-01-01\n.SH NAME\n%s \\- a page\n.SH DESCRIPTION\n.B Bold\ntext, \\(bu bullet.\n.TP\nItem\nText\n' $n $n > m/man1/$n.1; done
gzip -n m/man1/other.1; printf '.TH t 7\n.SH NAME\nt \\- table\n.TS\nl r.\na\t1\nb\t22\n.TE\n' > m/man7/t.7; printf 'MANPATH_MAP /x %s\n' "$PWD/m" > c
export MANWIDTH=70 MAN_NO_LOCALE_WARNING=1 PAGER=cat; man -l m/man1/mvld-test.1; man -M m other | head -5; man -l m/man7/t.7 | tail -4
mandb -q -C c -c m; man -C c -M m -k page | sort; apropos -M m nothing; echo "status $?"; man -M m missing; echo "status $?"; man -l -Tps m/man7/t.7 | head -1; groff -man -Tutf8 m/man1/mvld-test.1 | sha256sum
"""),
    Case("set-user-id", "su, passwd -S, chage, a set-user-ID copy of id and one with LD_PRELOAD, chfn's refusal",
         ("passwd", "login", "util-linux", "coreutils"), ("su", "passwd", "setpriv", "chage"), ("euid=0(root)", "root P|L"), root=True, cheap=True,
         under=("su", "passwd", "s-id", "setpriv", "sh"), script=r"""
chmod 755 . ..; cp /usr/bin/id s-id; cp /usr/bin/env s-env; chmod 4755 s-id s-env; u() { setpriv --reuid 65534 --regid 65534 --clear-groups "$@"; }
u ./s-id; u env LD_PRELOAD=/nonexistent.so ./s-id; LD_PRELOAD=/nonexistent.so ./s-id 2>&1 | sed 's/(.*cannot open/cannot open/'; u env A=b LD_LIBRARY_PATH=/x MALLOC_PERTURB_=7 GCONV_PATH=/x ./s-env | sort
u env MVLD_DEBUG=all MVLD=off ./s-env | grep -v 'MVLD\|^\(PWD\|_\)='| sort | sha256sum; u sh -c 'exec ./s-id -u'; cp s-id g-id; chmod 2755 g-id; u ./g-id | tr ' ' '\n' | sort
su nobody -s /bin/sh -c 'id -un; echo "$0 status"; exit 3'; echo "status $?"; su nobody -s /bin/bash -c 'cat /etc/shadow'; echo "status $?"
passwd -S root | cut -d' ' -f1,2 | sed 's/ [PL]$/ P|L/'; u passwd -S root; echo "status $?"; chage -l nobody | head -1; u chage -l root; echo "status $?"; u su -c id < /dev/null; echo "status $?"
setpriv --ambient-caps +net_raw --inh-caps +net_raw --reuid 65534 --clear-groups grep CapAmb /proc/self/status; setpriv --no-new-privs sh -c 'grep NoNewPrivs /proc/self/status'; runuser -u nobody -- id -u
"""),
    Case("sudo", "sudo as root and to another user, -l, environment, a wrong policy file",
         ("sudo",), ("sudo", "visudo"), ("uid=65534(nobody)", "FOO=bar"), root=True, under=("sudo", "id", "env"), normalise=((r"sudo: unable to resolve host .*\n", ""), (r"on \S+:$", "on HOST:")), script=r"""
printf 'Defaults !use_pty, env_keep += FOO\nroot ALL=(ALL:ALL) NOPASSWD: ALL\nnobody ALL=(root) NOPASSWD: %s\n' "$(command -v id)" > /etc/sudoers; rm -rf /etc/sudoers.d; chmod 440 /etc/sudoers
visudo -c; sudo -n id; sudo -n -u nobody id; FOO=bar X=y sudo -n env | grep 'FOO\|^X\|SUDO_USER' | sort; sudo -n -u nobody sudo -n id -u; sudo -n -u nobody sudo -n ls; echo "status $?"
sudo -n -l -U nobody | tail -1; sudo -n -u nosuchuser id; echo "status $?"; sudo -n sh -c 'exit 7'; echo "status $?"; sudo -n -i -u nobody id 2>&1 | tail -1; echo 'broken line' >> /etc/sudoers; sudo -n id; echo "status $?"
"""),
    Case("mount", "tmpfs, bind and overlay mounts, umount, findmnt, losetup-less images, df",
         ("mount", "util-linux", "coreutils"), ("mount", "umount", "findmnt"), ("over the lower one", "not mounted"), root=True, cheap=True,
         under=("mount", "umount", "findmnt", "df"), script=r"""
mkdir a b c l u; mount -t tmpfs -o size=1m,noexec none a; echo x > a/f; mount --bind a b; cat b/f; findmnt -no FSTYPE,SIZE "$PWD/b"; cp /bin/true a/t; ./a/t; echo "status $?"
mount -o remount,ro a; echo y > a/g; echo "status $?"; mount -t tmpfs none l; mkdir l/lo l/up l/wk; echo low > l/lo/f; mount -t overlay none -o "lowerdir=l/lo,upperdir=l/up,workdir=l/wk" u; echo 'over the lower one' > u/f; cat u/f l/lo/f
df --output=fstype,size a | tail -1; umount u b; umount b; echo "status $?"; umount a l; mount -t nothing none c; echo "status $?"; mountpoint a; stat -f -c %T /proc
"""),
    Case("namespaces", "unshare of users, PIDs, mounts and network; nsenter; ip-less loopback; setns",
         ("util-linux", "coreutils", "python3"), ("unshare", "nsenter", "python3"), ("pid 1", "uid 0"), cheap=True, probe="unshare -Ur true",
         under=("unshare", "nsenter", "sh", "python3", "id"), script=r"""
unshare -Ur sh -c 'echo "uid $(id -u)"; cat /proc/self/uid_map | tr -s " "'; unshare -Urpf --mount-proc sh -c 'echo "pid $$"; set -- /proc/[0-9]*; echo $#'
unshare -Urn sh -c 'wc -l < /proc/net/dev'; unshare -Uru sh -c 'hostname mvld-test 2> /dev/null; uname -n > /dev/null; echo $?'; unshare -Urm sh -c 'mount -t tmpfs none /mnt && echo x > /mnt/f && cat /mnt/f'; ls /mnt
unshare -Urpf --mount-proc sh -c 'sleep 5 & sleep 0.1; nsenter -t $! -m -p sh -c "readlink /proc/self/ns/pid > /dev/null && echo entered"; kill $!'
python3 -c 'import os, ctypes; l = ctypes.CDLL(None); print(l.unshare(0x10000000)); print(os.getuid()); os.execv("/usr/bin/id", ["id", "-u"])'; unshare --nothing; echo "status $?"
"""),
    Case("chroot", "a small root with the loader's folder bound in: sh, python, ls; then pivot_root",
         ("coreutils", "util-linux", "python3"), ("chroot", "unshare", "python3"), ("inside 4", "pivoted"), root=True, cheap=True,
         under=("chroot", "sh", "ls", "python3", "pivot_root"), elsewhere=("ls", "python3"), script=r"""
mkdir r; mount -t tmpfs none r; cd r; mkdir -p usr proc dev tmp old; ln -s usr/bin usr/lib usr/lib64 usr/sbin .; mount --rbind /usr usr; mount -t proc proc proc; touch dev/null; mount --bind /dev/null dev/null; cd ..
chroot r /bin/sh -c 'ls / | wc -l | sed "s/^/entries /"; echo "inside $((2 + 2))"; cd /tmp; echo y > f; cat f; ls /etc; exit 3'; echo "status $?"; chroot r python3 -c 'import os, sqlite3; print(os.listdir("/tmp"), sqlite3.sqlite_version > "3")'
umount r/proc; chroot r /bin/sh -c 'ls /proc; echo no proc; cat /tmp/f | sort'; chroot r /bin/nothing; echo "status $?"; chroot --userspec=65534:65534 r id -u; env -i chroot r /usr/bin/env; cd r; unshare -m sh -c 'pivot_root . old; cd /; umount -l /old; ls /old; echo pivoted'
"""),
    Case("bubblewrap", "bwrap with all namespaces, read-only binds, a tmpfs home, its own seccomp filter",
         ("bubblewrap", "python3"), ("bwrap",), ("sandboxed", "uid 1000"), probe="bwrap --ro-bind / / --unshare-all true", under=("bwrap", "sh", "python3", "ls"), elsewhere=("python3", "ls"), script=r"""
b() { bwrap --ro-bind /usr /usr --symlink usr/bin /bin --symlink usr/lib /lib --symlink usr/lib64 /lib64 --proc /proc --dev /dev --tmpfs /tmp --dir /home --unshare-all --die-with-parent --new-session "$@"; }
b sh -c 'echo sandboxed; ls /; echo x > /tmp/f; cat /tmp/f; touch /usr/x; echo "status $?"'; b --uid 1000 --gid 1000 sh -c 'echo "uid $(id -u)"; set -- /proc/[0-9]*; echo $#; wc -l < /proc/net/dev'
b --clearenv --setenv A b env; b python3 -c 'import ssl, os; print(os.getpid(), os.listdir("/home"))'; b --cap-drop ALL grep CapEff /proc/self/status; b sh -c 'exit 5'; echo "status $?"; b nothing; echo "status $?"
printf '\040\000\000\000\000\000\000\000\025\000\000\001\123\000\000\000\006\000\000\000\001\000\005\000\006\000\000\000\000\000\377\177' > filter; b --seccomp 9 sh -c 'mkdir /tmp/d; echo "mkdir $?"; ls -d /tmp' 9< filter
"""),
]
