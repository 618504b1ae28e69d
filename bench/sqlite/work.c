/* SPDX-License-Identifier: MIT
 *
 * work.c WHAT N [commit]: nanoseconds of CPU time of each of N rows or statements of SQLite, alone in its
 * process: no threads, no memory statistics.  The second line is a sum of what came out.
 *
 *     step     rows of a table read one after the other
 *     lookup   a row found by its key, two columns of it read
 *     insert   a row with a number and a text, into a table of at most a thousand
 */
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define ROWS 1000

int multiverse_commit(void) __attribute__((weak));

static sqlite3 *db;

static void expect(int is, int wanted)
{
    if (is == wanted)
        return;
    fprintf(stderr, "SQLite says %d, not %d: %s\n", is, wanted, sqlite3_errmsg(db));
    exit(1);
}

static void run(const char *statements)
{
    expect(sqlite3_exec(db, statements, NULL, NULL, NULL), SQLITE_OK);
}

static sqlite3_stmt *prepare(const char *statement)
{
    sqlite3_stmt *made;

    expect(sqlite3_prepare_v2(db, statement, -1, &made, NULL), SQLITE_OK);
    return made;
}

static void insert(sqlite3_stmt *statement, int number)
{
    sqlite3_bind_int(statement, 1, number);
    sqlite3_bind_text(statement, 2, "some text", 9, SQLITE_TRANSIENT);
    expect(sqlite3_step(statement), SQLITE_DONE);
    sqlite3_reset(statement);
}

static long do_step(long n)
{
    sqlite3_stmt *statement = prepare("select id, a from t");
    long sum = 0;

    while (n > 0) {
        for (; n > 0 && sqlite3_step(statement) == SQLITE_ROW; n--)
            sum += sqlite3_column_int(statement, 1);
        sqlite3_reset(statement);
    }
    return sum;
}

static long do_lookup(long n)
{
    sqlite3_stmt *statement = prepare("select a, b from t where id = ?");
    long sum = 0;

    for (; n > 0; n--) {
        sqlite3_bind_int(statement, 1, 1 + (int)(n * 37 % ROWS));
        expect(sqlite3_step(statement), SQLITE_ROW);
        sum += sqlite3_column_int(statement, 0) + sqlite3_column_text(statement, 1)[0];
        sqlite3_reset(statement);
    }
    return sum;
}

static long do_insert(long n)
{
    sqlite3_stmt *statement;

    run("create table u(id integer primary key, a int, b text)");
    statement = prepare("insert into u values(null, ?, ?)");
    run("begin");
    for (; n > 0; n--) {
        insert(statement, (int)n);
        if (n % ROWS == 0)
            run("rollback; begin");
    }
    return (long)sqlite3_last_insert_rowid(db);
}

static double cpu_time(void)
{
    struct timespec t;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

int main(int argc, char **argv)
{
    long n = argc > 2 ? atol(argv[2]) : 0, sum;
    sqlite3_stmt *statement;
    double start;

    if (n <= 0)
        return 2;
    expect(sqlite3_config(SQLITE_CONFIG_SINGLETHREAD), SQLITE_OK);
    expect(sqlite3_config(SQLITE_CONFIG_MEMSTATUS, 0), SQLITE_OK);
    if (argc > 3 && (!multiverse_commit || multiverse_commit() <= 0))
        return 3;
    expect(sqlite3_open(":memory:", &db), SQLITE_OK);
    run("create table t(id integer primary key, a int, b text); begin");
    statement = prepare("insert into t values(null, ?, ?)");
    for (int i = 0; i < ROWS; i++)
        insert(statement, i * 7);
    run("commit");
    start = cpu_time();
    sum = !strcmp(argv[1], "step") ? do_step(n) : !strcmp(argv[1], "lookup") ? do_lookup(n) : do_insert(n);
    printf("%.2f\n%ld\n", (cpu_time() - start) / (double)n, sum);
    return 0;
}
