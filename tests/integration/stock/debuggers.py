# SPDX-License-Identifier: MIT
"""Programs that look into others: debuggers, tracers, valgrind, perf."""
from stock.case import Case

# A program, a library that it needs and one that it opens.
PROGRAM = r"""
cat > l.c <<'END'
int twice(int x)
{
    int y = x * 2;
    return y;
}
END
cat > d.c <<'END'
#include <stdio.h>
int plugged(int x)
{
    printf("plugged %d\n", x);
    return x + 1;
}
END
cat > p.c <<'END'
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
int twice(int x);
__thread int own = 7;
static volatile int stop;
static void *run(void *p)
{
    own++;
    while (!stop)
        usleep(1000);
    return p;
}
int main(int c, char **v)
{
    pthread_t t;
    if (c > 1 && *v[1] == 'w') {
        pthread_create(&t, NULL, run, NULL);
        puts("waiting"), fflush(stdout), sleep(30);
    }
    printf("twice %d\n", twice(21));
    void *h = dlopen("./d.so", RTLD_NOW);
    int (*f)(int) = (int (*)(int))dlsym(h, "plugged");
    int r = f(twice(4));
    if (c > 1 && *v[1] == 'a')
        abort();
    dlclose(h);
    return r;
}
END
gcc -g -O0 -fPIC -shared -o libl.so l.c && gcc -g -O0 -fPIC -shared -o d.so d.c &&
    gcc -g -O0 -pthread -o p p.c ./libl.so -ldl || exit 1
cat > gdbinit <<'END'
set debuginfod enabled off
set confirm off
set pagination off
set width 0
set style enabled off
END
g() { gdb -q -nx -batch -x gdbinit "$@" 2>&1 | sed 's/0x[0-9a-f]*/ADDRESS/g; s/process [0-9]*/process N/; s/LWP [0-9]*/LWP N/; s/(Thread ADDRESS/(Thread/'; }
"""
GDB = dict(packages=("gdb", "gcc", "libc6-dev"), needs=("gdb", "gcc"), cheap=True, under=("gdb", "p"))

# It takes an object by another name for another object.
NEW_GDB = """case $(gdb --version | head -n 1) in
*" "10.*) echo "gdb 10 says of the host loader that it goes and comes, because its name changes"; exit 1;;
esac"""

CASES = [
    Case("gdb-run", "breakpoints in the program, a library and a dlopened object; steps, watch, variables of threads",
         expect=("twice (x=21)", "plugged (x=8)", "= 7"), probe=NEW_GDB, script=PROGRAM + r"""
# Where a library event stops is mvld's own function, for which gdb reads no symbols.
place() { grep -v '__GI__dl_debug_state\|dl-debug.c\|dl-debug_state.c\|dl-open.c\|^ADDRESS in ?? ()$'; }
g -ex 'break twice' -ex 'set breakpoint pending on' -ex 'break plugged' -ex run -ex bt -ex finish -ex 'print own' -ex continue -ex continue -ex bt -ex 'info breakpoints' -ex 'watch x' -ex 'set var x = 9' -ex delete -ex continue ./p
g -ex 'catch load d.so' -ex run -ex 'info line plugged' -ex 'tbreak d.c:4' -ex c -ex next -ex 'print printf("called %d\n", 3)' -ex 'info symbol plugged' -ex kill ./p | place
g -ex start -ex 'stepi 3' -ex 'tbreak exit' -ex c -ex 'info sharedlibrary' ./p | grep -v 'Yes\|missing debugging'; g -ex 'run' -ex 'print $_exitcode' --args ./p x
""", **GDB),
    Case("gdb-attach", "attaching to a running program with a thread, its stacks and thread-local variables, detaching",
         expect=("in run (p=", "= 8", "waiting"), script=PROGRAM + r"""
> out; ./p w > out & for i in $(seq 100); do grep -q waiting out && break; sleep 0.05; done
g -p $! -ex 'thread apply all -q bt 1' -ex 'thread 2' -ex 'up 10' -ex 'frame function run' -ex 'print own' -ex 'set var stop = 1' -ex 'break twice' -ex detach | grep 'in run\|in main\|^\$\|Detach\|Breakpoint'
kill $!; wait $! 2> /dev/null; echo "status $?"; cat out
""", **GDB),
    Case("gdb-core", "a core file of gcore and one that gdb reads: backtrace, libraries, variables",
         expect=("in main", "plugged (x=8)", "#1"), script=PROGRAM + r"""
g -ex 'set breakpoint pending on' -ex 'break plugged' -ex run -ex 'gcore core.1' -ex kill ./p | grep -v '^warning: Memory\|^$'
g -ex bt -ex 'print x' -ex 'frame 1' -ex 'print h != 0' -ex 'info sharedlibrary' ./p core.1 | grep '^#\|^\$\|d.so\|libl.so'
g -ex run -ex bt -ex 'gcore core.2' --args ./p a | grep 'SIGABRT\|in main'; g -ex 'print f' -ex 'print r' -ex bt ./p core.2 | grep 'terminated\|in main'
""", **GDB),
    Case("strace", "a shell and its children: opened files, statuses, counts, injected errors, attaching",
         ("strace", "dash"), ("strace",), ("exit_group(3)", "Cannot allocate memory"), cheap=True, under=("strace", "sh", "ls"), script=r"""
echo data > f; strace -o t sh -c 'cat f; exit 3'; echo "status $?"; grep exit_group t; strace -f -e trace=openat -o t sh -c 'ls f; cat f' ; grep -o '"f".*\|"libc[^"]*"' t | sort -u
strace -qq -e trace=write -o t cat f; cat t; strace -c -S name -e trace=write,exit_group -o t sh -c 'echo a; echo b'; awk '{print $4, $NF}' t | grep write
strace -f -o t -e inject=unlinkat:error=EROFS rm f; echo "status $?"; strace -o /dev/null -e trace=brk -e inject=mmap:error=ENOMEM:when=20+ sort f 2>&1 | tail -1 | sed 's/.*: //'; strace -e trace=none -e 'signal=SIGTERM' -o t sh -c 'kill $$'; echo "status $?"; sed 's/pid=[0-9]*/pid=N/; s/uid=[0-9]*/uid=N/' t
strace -e inject=mmap:error=ENOMEM:when=1 -o /dev/null perl -e 'print 1' > /dev/null 2>&1; echo "Cannot allocate memory: $(perl -e '$! = 12; print $!')"; sleep 5 & strace -p $! -o t -e trace=none 2> /dev/null & sleep 0.5; kill %1; wait; tail -1 t | cut -c1-20
"""),
    Case("ltrace", "library calls of a program and of a shell's child",
         ("ltrace", "gcc"), ("ltrace", "gcc"), ("twice(21", "plugged 8"), under=("ltrace", "p"), script=PROGRAM + r"""
gcc -O0 -no-pie -fno-plt -fcf-protection=none -Wl,-z,lazy -o q p.c ./libl.so -fplt -ldl; ltrace -o t ./q; echo "status $?"; sed 's/0x[0-9a-f]*/ADDRESS/g; s/  *= / = /' t; ltrace -c -o t ./q; awk '{print $3, $4}' t | grep twice; ./p; echo "status $?"
"""),
    Case("valgrind", "memcheck with errors and leaks, helgrind with a race, callgrind's functions; a child",
         ("valgrind", "gcc", "libc6-dev"), ("valgrind", "gcc"), ("Invalid read of size 4", "definitely lost: 40", "Possible data race"), cheap=True, under=("valgrind", "sh"), timeout=240, script=r"""
cat > v.c <<'END'
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
static int shared;
static void *run(void *p) { shared++; return p; }
int main(int c, char **v) {
    int *p = malloc(40), *q = malloc(8), u; (void)v; if (c > 1) { pthread_t t; pthread_create(&t, 0, run, 0); run(0); pthread_join(t, 0); return 0; }
    printf("%d\n", q[2] == 5); free(q); p = NULL; if (u) puts("u"); return p != NULL;
}
END
gcc -g -O0 -w -pthread -o v v.c; k() { sed 's/==[0-9]*== \?//; s/0x[0-9A-F]*/ADDRESS/g' | grep "$@"; }
valgrind --leak-check=full ./v > out 2> err; echo "status $?"; k 'Invalid\|main (v.c\|lost\|Conditional\|ERROR SUM' < err; valgrind --tool=helgrind ./v x 2>&1 | k 'Possible data race\|run (v.c\|contexts' | sed 's/#[0-9]*//; s/[0-9]* errors/N errors/; s/(suppressed.*//' | sort -u
valgrind -q --tool=callgrind --callgrind-out-file=c.out ./v > /dev/null 2>&1; callgrind_annotate c.out 2> /dev/null | grep -o 'v.c:main'; valgrind -q --trace-children=yes --error-exitcode=9 sh -c './v; exit $?' > /dev/null 2>&1; echo "status $?"; valgrind -q --tool=none ls v
"""),
    Case("perf", "perf stat and perf record of a program: its functions and its library's, by name",
         ("linux-perf", "gcc"), ("perf", "gcc"), ("busy in libb.so", "main counted"), probe="perf stat -e cpu-clock:u true && perf record -e cpu-clock:u -o perf.data true", under=("perf", "p"), script=r"""
echo 'int busy(int n) { volatile int s = 0; for (int i = 0; i < n; i++) s += i; return s; }' > b.c; gcc -O1 -g -fno-omit-frame-pointer -fPIC -shared -o libb.so b.c
echo 'int busy(int); int main(void) { int s = 0; for (int i = 0; i < 300; i++) s += busy(1000000); return s == 1; }' > m.c; gcc -O1 -g -fno-omit-frame-pointer -o p m.c ./libb.so
perf record -q -e cpu-clock:u -F 999 -g -o data ./p 2> err; echo "status $?"; perf report -i data --stdio -g none --no-children --sort dso,symbol 2> /dev/null | grep '%.*busy' | awk '{print ($1 + 0 > 80), $2, $4}' | sed 's/^1 libb.so busy/busy in libb.so/'
perf script -i data 2> /dev/null | grep -c ' main+' | awk '{print ($1 > 50 ? "main counted" : "main missing")}'; perf stat -x, -e task-clock:u -o s ./p; grep -c task-clock s; perf stat -e nothing true 2>&1 | grep -c 'event syntax'
"""),
]
