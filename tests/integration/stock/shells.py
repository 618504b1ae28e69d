# SPDX-License-Identifier: MIT
"""Shells, and the small programs that they start in great numbers."""
from stock.case import Case

CASES = [
    Case("bash", "arrays, traps, pipes, 200 forks, exit status",
         ("bash",), ("bash",), ("status 7",), cheap=True,
         script=r"""
cat > s.bash <<'END'
trap 'echo leaving' EXIT
declare -A count; while read -r w; do ((count[$w]++)); done < <(printf '%s\n' b a b c b)
for k in $(printf '%s\n' "${!count[@]}" | sort); do echo "$k=${count[$k]}"; done
s=0; for i in {1..200}; do s=$((s + $(echo "$i"))); done; echo "sum $s"
[[ "mvld-0.1" =~ ^([a-z]+)-([0-9.]+)$ ]] && echo "${BASH_REMATCH[@]}"
f() { local x=${1^^}; echo "${x//L/-}"; }; f hello; wait; exit 7
END
bash s.bash; echo "status $?"
"""),
    Case("coreutils", "find, sort, awk, sed, xargs, tar, gzip, sha256sum",
         ("coreutils", "mawk", "findutils", "sed", "tar", "gzip"), ("awk", "tar", "gzip"), ("f199",), cheap=True,
         under=("find", "sort", "awk", "sed", "xargs", "sha256sum", "tar", "gzip", "diff"),
         script=r"""
mkdir d; for i in $(seq 200); do echo "line $i" > d/f$i; done
find d -type f | sort -V | tail -3; find d -name 'f1*' -print0 | sort -z | xargs -0 cat | sha256sum
cat $(find d -type f | sort -V) | awk '{s += $2} END {print s}'
tar --sort=name --mtime=@0 --owner=0 --group=0 -cf - d | gzip -9n | tee a.tgz | sha256sum
mkdir x; tar -C x -xzf a.tgz; diff -r d x/d; echo "diff $?"; ls x/d | sort -V | sed -n '199p'
cat /nonexistent; echo "status $?"
"""),
    Case("dash", "a POSIX script: here-documents, getopts, traps, 100 subshells",
         ("dash",), ("dash",), ("sum 5050", "trap 15"), cheap=True, script=r"""
cat > s.sh <<'END'
while getopts ab:c o -a -b x -z; do echo "$o ${OPTARG-}"; done 2>&1
s=0; for i in $(seq 100); do s=$(($(echo "$s") + i)); done; echo "sum $s"
trap 'echo trap 15; exit 4' TERM; (sleep 0.1; kill -TERM $$) & wait
END
dash s.sh; echo "status $?"; dash -c 'echo $((1 / 0))'; echo "status $?"
ulimit -f 0; dash -c 'echo x > f' 2>&1; echo "status $?"
"""),
    Case("zsh", "globs, associative arrays, modules loaded at run time, a pseudo terminal",
         ("zsh",), ("zsh",), ("mapped 3", "zpty says hello"), script=r"""
cat > s.zsh <<'END'
zmodload zsh/mathfunc zsh/datetime zsh/zpty zsh/mapfile zsh/system || exit 1
typeset -A h; h=(a 1 b 2 c 3); print mapped ${#h} ${(ok)h} ${(o)h}
touch x{1..9}.t; print -l x*.t(om[1,9]) | sort | tail -2; print $(( floor(sqrt(50)) ))
print "${(U)${:-zsh}}" ${(s.:.)${:-a:b:c}}; print -r -- $mapfile[s.zsh] | wc -l
zpty p 'print zpty says hello; stty -a | head -1'; zpty -r p line; print -r -- ${line//$'\r'}; zpty -d p
print -l {1..2000} | while read n; do (( t += n )); done; print $t
END
zsh -f s.zsh; echo "status $?"
"""),
    Case("busybox", "its shell with 12 applets, standalone: execs itself",
         ("busybox",), ("busybox",), ("busybox-1999",), script=r"""
cat > s.sh <<'END'
for i in $(busybox seq 1990 1999); do echo "busybox-$i"; done > f
busybox sort -r f | busybox head -n 2; busybox awk -F- '{s += $2} END {print s}' f
busybox sha256sum f; busybox gzip -c f | busybox gunzip | busybox wc -l
busybox tar cf t.tar f; busybox tar tf t.tar; busybox sed -n '$s/b/B/p' f; echo 7 | busybox dc -e '? 6 * p'
busybox find . -name 'f' -exec busybox md5sum {} \;; busybox false; echo "status $?"
END
busybox sh s.sh; echo "status $?"
"""),
    Case("many-processes", "1500 short processes: loops over expr, cut, tr, basename, test",
         ("coreutils", "mawk", "sed", "grep"), ("expr", "awk", "sed", "grep"), ("total 180300",),
         cheap=True, under=("expr", "basename", "cut", "tr", "env", "test"), script=r"""
total=0; i=0
while [ $i -lt 300 ]; do
    i=$(expr $i + 1); name=$(basename /a/b/$i.txt .txt)
    /usr/bin/test "$name" -eq $i && total=$(expr $total + $i \* 4)
done
total=$(expr $total - 300)
echo "total $total"; i=0
while [ $i -lt 100 ]; do i=$((i + 1)); printf 'a,%s,c\n' $i | cut -d, -f2 | tr 0-9 a-j; done | sha256sum
i=0; while [ $i -lt 100 ]; do i=$((i + 1)); env -i /usr/bin/env X=$i /usr/bin/env; done | grep -c '^X='
seq 5000 | sed 's/5/five/g' | awk '{n += length($0)} END {print n}'
seq 100 | xargs -P 8 -n 1 sh -c 'exit $(($0 % 2))'; echo "status $?"
"""),
    Case("terminal", "script(1): a shell, stty, tty and ls on a pseudo terminal",
         ("bsdutils", "util-linux", "coreutils"), ("script", "stty"), ("33 columns", "COMMAND_EXIT_CODE"),
         cheap=True, under=("script", "bash", "stty", "tty", "ls"),
         normalise=((r" on \d{4}-.*? \[", " on DATE ["),), script=r"""
script -q -e -c 'stty cols 33 rows 7; stty size | { read r c; echo "$c columns"; }
    tty | sed "s/[0-9][0-9]*//"; ls -C --color=auto /usr /etc/debian_version; exit 3' log > out
echo "status $?"; cat -A out; cat -A log | sed 's/TTY="[^"]*"/TTY/'
printf 'echo typed $((6 * 7))\nexit 5\n' | script -q -e -c 'PS1= bash --norc -i' /dev/null | tail -n 3
"""),
    Case("locales", "localedef, then sort, printf, date and ls in German, Turkish and C",
         ("locales", "libc-bin"), ("localedef", "locale", "sort"), ("1234,50", "Montag"), cheap=True,
         under=("localedef", "locale", "sort", "printf", "date"), script=r"""
mkdir loc; export LOCPATH=$PWD/loc
for l in de_DE tr_TR; do localedef -i $l -f UTF-8 ./loc/$l.UTF-8 || exit 1; done
locale -a | grep -c .; ls loc
for l in C de_DE.UTF-8 tr_TR.UTF-8; do
    export LC_ALL=$l; printf 'Z\nä\na\nI\nı\ni\nB\n' | sort | tr '\n' ' '; echo
    /usr/bin/date -u -d 2024-01-01 +'%A %B %x'; /usr/bin/printf '%.2f\n' $(locale decimal_point | sed 's/^/1234/;s/$/5/')
    locale -k LC_NUMERIC | head -2; cat /nonexistent 2>&1
    bash -c 'x=ıiäI; echo "${x^^} ${#x}"'
done
"""),
]
