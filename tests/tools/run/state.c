/* SPDX-License-Identifier: MIT
 *
 * Prints all of what execve leaves to a program, but for addresses, times and what is of this process alone.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

static void show_link(const char *name)
{
    char to[4096];
    ssize_t n = readlink(name, to, sizeof to - 1);

    printf("%s -> %.*s\n", name, n > 0 ? (int)n : 1, n > 0 ? to : "?");
}

/* Those lines of a file that begin with one of the words; NULL: all. */
static void show_lines(const char *name, const char *const *words)
{
    FILE *file = fopen(name, "r");
    char line[8192];

    printf("%s:\n", name);
    while (file && fgets(line, sizeof line, file)) {
        int wanted = !words;
        for (const char *const *w = words; w && *w; w++)
            wanted |= !strncmp(line, *w, strlen(*w));
        if (wanted)
            printf("  %s", line);
    }
    if (file)
        fclose(file);
}

static void show_vectors(int argc, char **argv)
{
    unsigned long sum = 0;

    printf("argc %d\n", argc);
    for (int i = 0; i < argc; i++)
        printf("argv[%d] %zu %.80s\n", i, strlen(argv[i]), argv[i]);
    for (char **e = environ; *e; e++)
        if (strncmp(*e, "MVLD", 4))
            printf("environment %zu %.80s\n", strlen(*e), *e);
    char **end = environ;
    while (*end)
        end++;
    for (Elf64_auxv_t *a = (Elf64_auxv_t *)(end + 1); a->a_type; a++)
        if (a->a_type != AT_IGNORE)
            printf("auxv %lu\n", (unsigned long)a->a_type);
    for (unsigned long type = AT_UID; type <= AT_SECURE; type++)
        printf("auxv %lu is %lx\n", type, type == AT_PLATFORM ? 0 : getauxval(type));
    printf("AT_EXECFN %s\nAT_PLATFORM %s\n", (const char *)getauxval(AT_EXECFN), (const char *)getauxval(AT_PLATFORM));
    /* The kernel's copy: AT_BASE is where a file's header lies. */
    FILE *file = fopen("/proc/self/auxv", "r");
    Elf64_auxv_t a;
    while (file && fread(&a, sizeof a, 1, file) == 1) {
        sum = sum * 31 + a.a_type;
        if (a.a_type == AT_BASE)
            printf("at AT_BASE: %d\n", !a.a_un.a_val || !memcmp((void *)a.a_un.a_val, ELFMAG, SELFMAG));
    }
    if (file)
        fclose(file);
    printf("types of /proc/self/auxv %lx\n", sum);
}

static void show_files(void)
{
    for (int fd = 0; fd < 64; fd++) {
        char name[32];
        struct stat st;
        if (fstat(fd, &st))
            continue;
        printf("descriptor %d: mode %o, flags %x, at exec %d\n", fd, st.st_mode & S_IFMT, fcntl(fd, F_GETFL) & ~O_LARGEFILE,
               fcntl(fd, F_GETFD));
        sprintf(name, "/proc/self/fd/%d", fd);
        if (!S_ISFIFO(st.st_mode))
            show_link(name);
    }
}

static void show_children(void)
{
    struct rusage children;
    int status;

    getrusage(RUSAGE_CHILDREN, &children);
    printf("children's memory %ld, faults %ld, time %ld\n", children.ru_maxrss, children.ru_minflt,
           children.ru_utime.tv_sec + children.ru_utime.tv_usec + children.ru_stime.tv_sec + children.ru_stime.tv_usec);
    while (waitpid(-1, &status, 0) > 0)
        printf("child ended: %x\n", status);
}

static void show_settings(void)
{
    struct itimerval timer;
    int death = 0, reaper = 0;
    char name[32] = "";

    prctl(PR_GET_PDEATHSIG, &death);
    prctl(PR_GET_CHILD_SUBREAPER, &reaper);
    prctl(PR_GET_NAME, name);
    getitimer(ITIMER_REAL, &timer);
    printf("death's signal %d, reaper %d, name %s, dumpable %d, slack %d, keeps %d, no new %d\n", death, reaper, name,
           prctl(PR_GET_DUMPABLE), prctl(PR_GET_TIMERSLACK), prctl(PR_GET_KEEPCAPS), prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0));
    printf("timer %d, umask %o, nice %d, personality %x\n", timer.it_value.tv_sec > 0, umask(0), getpriority(PRIO_PROCESS, 0),
           personality(0xffffffff));
    printf("parent %d, group %d, session %d, terminal's %d\n", getppid() == atoi(getenv("PARENT")), getpgrp() == getpid(),
           getsid(0) == getpid(), tcgetpgrp(0));
}

int main(int argc, char **argv)
{
    static const char *const status[] = {"Umask", "TracerPid", "Uid", "Gid", "FDSize", "Groups", "Threads",
        "SigPnd", "ShdPnd", "SigBlk", "SigIgn", "SigCgt", "Cap", "NoNewPrivs", "Seccomp", "Cpus_allowed", NULL};

    show_vectors(argc, argv);
    show_files();
    show_lines("/proc/self/status", status);
    show_lines("/proc/self/comm", NULL);
    show_lines("/proc/self/limits", NULL);
    show_lines("/proc/self/oom_score_adj", NULL);
    show_lines("/proc/self/coredump_filter", NULL);
    show_link("/proc/self/exe");
    show_link("/proc/self/cwd");
    show_link("/proc/self/root");
    show_settings();
    show_children();
    return 7;
}
