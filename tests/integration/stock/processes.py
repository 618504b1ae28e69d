# SPDX-License-Identifier: MIT
"""Processes in unusual surroundings: limits, stacks, descriptors, files that cannot be read."""
from stock.case import Case

# With RLIMIT_NOFILE of 3 nothing can be loaded, and the sentence that says so is mvld's own.
CASES = [
    Case("address-space", "RLIMIT_AS from 8 MB up to 1 GB: python, gcc, sort, sh; what does not fit fails alike",
         ("util-linux", "python3", "gcc", "coreutils"), ("python3", "gcc", "prlimit"), ("sorted 100000", "caught"), cheap=True,
         script=r"""
cat > s.py <<'END'
try: x = bytearray(1 << 30)
except MemoryError: print("caught")
END
prlimit --as=300000000 python3 s.py; echo "status $?"; seq 100000 | (ulimit -v 400000; sort -R --random-source=/dev/zero -S 10M) | wc -l | sed 's/^/sorted /'
echo 'int main(void) { return 3; }' > p.c; (ulimit -v 1000000; gcc -o p p.c); (ulimit -v 8000; ./p); echo "status $?"
for m in 40000 80000; do (ulimit -v $m; sh -c 'echo $((1 + 1)); ls s.py'); echo "status $?"; done
(ulimit -d 20000; python3 s.py); (ulimit -n 8; sh -c 'cat p.c; exec 9< p.c'; echo "status $?"); (ulimit -u 100000; ls p.c)
(ulimit -n 3; cat p.c 2> /dev/null); echo "status $?"; (ulimit -l 0; python3 -c 'print(1)'); (ulimit -c 0; sh -c 'kill -SEGV $$'); echo "status $?"
"""),
    Case("small-stacks", "stacks of 256 KiB, 1 MiB and without limit; 1 MB of arguments; a deep recursion",
         ("dash", "python3", "gcc"), ("python3", "gcc"), ("200 threads", "arguments 60000"), cheap=True,
         under=("sh", "python3", "seq", "p"), script=r"""
cat > s.py <<'END'
import threading
t = [threading.Thread(target=lambda: sum(range(1000))) for i in range(200)]
[x.start() for x in t]; [x.join() for x in t]; print(len(t), "threads")
END
for k in 256 1024 unlimited; do (ulimit -s $k; sh -c 'seq 3; ls /dev/null; sed s/./x/ s.py | tail -1'; python3 s.py; echo "status $?"); done
(ulimit -s 64; ls s.py); echo "status $?"; (ulimit -s 8192; env X="$(seq 20000 | tr '\n' ' ')" sh -c 'echo "arguments $#"' sh $(seq 60000))
cat > p.c <<'END'
#include <stdio.h>
#include <stdlib.h>
static int deep(int n) { volatile char b[1000]; b[0] = (char)n; return n ? deep(n - 1) + b[0] * 0 : 7; }
int main(int c, char **v) { (void)c; printf("%d\n", deep(atoi(v[1]))); return 0; }
END
gcc -O0 -o p p.c; ./p 5000; (ulimit -s 256; ./p 150); (ulimit -s 256; ./p 5000); echo "status $?"; (ulimit -s unlimited; ./p 20000)
"""),
    Case("closed-descriptors", "0, 1, 2 closed in every combination, 200 to 1023 in use, a full /dev/full",
         ("bash", "coreutils", "python3"), ("bash", "python3"), ("fds 0 1 2", "No space left"), cheap=True, script=r"""
cat > s.py <<'END'
import os, sys
fds = [f for f in range(1100) if os.path.exists("/proc/self/fd/%d" % f)]
with open("out", "a") as f: f.write("fds %s %s\n" % (" ".join(map(str, fds)), sys.argv[1:]))
END
for r in '' '<&-' '>&-' '2>&-' '<&- >&-' '>&- 2>&-' '<&- >&- 2>&-'; do
    bash -c "python3 s.py '$r' $r; echo status \$?; sh -c 'ls s.py; cat' $r; echo status \$?" 2>&1
done
cat out; ls > /dev/full; echo "status $?"; ls nothing 2> /dev/full; echo "status $?"; echo | cat > /dev/full; echo "status $?"
bash -c 'ulimit -n 1024; for i in {3..1023}; do eval "exec $i< s.py"; done; cat s.py | tail -1; exec /bin/echo echoed'; echo "status $?"
bash -c 'exec 200> a 201> b 255> c; ls -1 /dev/null; echo x >&200; ls -1 /dev/null >&255'; cat a b c
"""),
    Case("execute-only", "chmod 0111 programs and libraries' folders as another user; scripts; deleted files",
         ("coreutils", "gcc", "util-linux"), ("setpriv", "gcc"), ("only to execute", "status 126"), root=True, cheap=True,
         under=("setpriv", "p", "x-cat"), script=r"""
printf '#include <stdio.h>\nint main(int c, char **v) { printf("only to execute %%d %%s%%c", c, v[c - 1], 10); return 4; }\n' > p.c
chmod 755 . ..; gcc -o p p.c; chmod 0111 p; cp /bin/cat x-cat; chmod 0111 x-cat; u() { setpriv --reuid 65534 --regid 65534 --clear-groups "$@"; }
u ./p a b; echo "status $?"; u ./x-cat p.c | wc -l; u cat p; echo "status $?"; u sh -c './p; exec ./x-cat /dev/null'; echo "status $?"
cp p q; chmod 0644 q; u ./q; echo "status $?"; printf '#!/bin/sh\necho script\n' > s; chmod 0755 s; u ./s; chmod 0111 s; u ./s; echo "status $?"
cp p d; chmod 755 d; ./d late; cp /bin/sleep z; ./z 1 & sleep 0.5; rm z; wait $!; echo "status $?"
mkdir -m 711 k; cp p k/p; chmod 0111 k/p; u k/p; ln -s k/p l; u ./l x; cd /; u /proc/self/cwd/bin/echo through /proc
"""),
    Case("signals-and-clones", "vfork, posix_spawn, 500 threads, SIGSEGV and SIGALRM handlers, alternate stack, ptrace",
         ("gcc", "libc6-dev"), ("gcc",), ("handled 11", "threads 500", "traced 42"), cheap=True, under=("gcc", "p", "sh"), script=r"""
cat > p.c <<'END'
#define _GNU_SOURCE
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ptrace.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>
static sigjmp_buf j; static volatile int ticks; static __thread int mine;
static void handler(int s, siginfo_t *i, void *u) { (void)u; if (s == SIGALRM) { ticks++; return; } siglongjmp(j, i->si_signo); }
static void *run(void *p) { mine = 1; for (int i = 0; i < 100; i++) { free(malloc((size_t)i * 50)); mine++; } return (char *)p + mine; }
int main(void) {
    struct sigaction a = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART}; int s, n = 0;
    stack_t st = {.ss_sp = malloc(65536), .ss_size = 65536}; sigaltstack(&st, NULL);
    sigaction(SIGSEGV, &a, NULL); sigaction(SIGALRM, &a, NULL);
    struct itimerval t = {{0, 1000}, {0, 1000}}; setitimer(ITIMER_REAL, &t, NULL);
    if (!(s = sigsetjmp(j, 1))) *(volatile int *)8 = 1; printf("handled %d\n", s);
    pthread_t th[500]; for (int i = 0; i < 500; i++) pthread_create(&th[i], NULL, run, NULL);
    for (int i = 0; i < 500; i++) { void *r; pthread_join(th[i], &r); n += r == (void *)101; }
    printf("threads %d\n", n); while (ticks < 20) pause(); t.it_value.tv_usec = 0; setitimer(ITIMER_REAL, &t, NULL);
    for (int i = 0; i < 20; i++) { pid_t p = vfork(); if (!p) { execl("/bin/sh", "sh", "-c", "exit 5", NULL); _exit(1); } waitpid(p, &s, 0); n += WEXITSTATUS(s); }
    char *v[] = {"sh", "-c", "exit 6", NULL}; pid_t p; posix_spawn(&p, "/bin/sh", NULL, NULL, v, environ); waitpid(p, &s, 0);
    printf("children %d %d\n", n, WEXITSTATUS(s)); fflush(stdout);
    if (!(p = fork())) { ptrace(PTRACE_TRACEME, 0, 0, 0); raise(SIGSTOP); execl("/bin/sh", "sh", "-c", "exit 42", NULL); }
    waitpid(p, &s, 0); for (n = 0; !WIFEXITED(s); n++) { ptrace(PTRACE_CONT, p, 0, 0); waitpid(p, &s, 0); }
    printf("traced %d after %d stops\n", WEXITSTATUS(s), n); fflush(stdout); signal(SIGSEGV, SIG_DFL); abort();
}
END
gcc -O1 -pthread -o p p.c && ./p; echo "status $?"
"""),
]
