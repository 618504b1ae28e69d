# SPDX-License-Identifier: MIT
"""The cases of stock_programs.py: shell scripts whose output does not depend on
when and where they run.  `expect` must be in the output, so that a case which
does nothing cannot pass."""
from dataclasses import dataclass


@dataclass
class Case:
    name: str
    what: str       # one line for people
    needs: tuple    # programs that must be installed
    expect: str
    script: str


CASES = [
    Case("bash", "arrays, traps, pipes, 200 forks, exit status", ("bash",), "status 7", r"""
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
    Case("coreutils", "find, sort, awk, sed, xargs, tar, gzip, sha256sum", ("awk", "tar", "gzip"),
         "f199", r"""
mkdir d; for i in $(seq 200); do echo "line $i" > d/f$i; done
find d -type f | sort -V | tail -3; find d -name 'f1*' -print0 | sort -z | xargs -0 cat | sha256sum
cat $(find d -type f | sort -V) | awk '{s += $2} END {print s}'
tar --sort=name --mtime=@0 --owner=0 --group=0 -cf - d | gzip -9n | tee a.tgz | sha256sum
mkdir x; tar -C x -xzf a.tgz; diff -r d x/d; echo "diff $?"; ls x/d | sort -V | sed -n '199p'
cat /nonexistent; echo "status $?"
"""),
    Case("python3", "sqlite3, ssl, ctypes, threads, subprocesses, exceptions", ("/usr/bin/python3",),
         "ValueError", r"""
cat > s.py <<'END'
import concurrent.futures, ctypes, hashlib, json, os, sqlite3, ssl, subprocess, sys, zlib
db = sqlite3.connect(":memory:")
db.execute("create table t(a, b)")
db.executemany("insert into t values(?, ?)", [(i, i * i) for i in range(1000)])
print(db.execute("select sum(b), count(*) from t where a % 7 = 3").fetchone())
libm = ctypes.CDLL("libm.so.6"); libm.cos.restype = ctypes.c_double
print("%.6f" % libm.cos(ctypes.c_double(1.0)), ssl.create_default_context().check_hostname)
with concurrent.futures.ThreadPoolExecutor(8) as pool:
    print(sum(pool.map(lambda n: zlib.crc32(b"x" * n), range(2000))))
print(hashlib.sha256(json.dumps({"k": list(range(50))}).encode()).hexdigest())
print(subprocess.run(["uname", "-s"], capture_output=True, text=True).stdout.strip())
pid = os.fork()
if pid == 0:
    os.execv("/bin/sh", ["sh", "-c", "exit 5"])
print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), os.environ.get("LD_PRELOAD"))
raise ValueError("on purpose")
END
/usr/bin/python3 s.py; echo "status $?"
"""),
    Case("perl", "regular expressions, XS modules, fork, sort, sprintf", ("perl",), "child 3", r"""
cat > s.pl <<'END'
use strict; use warnings; use Digest::SHA qw(sha256_hex); use POSIX qw(floor); use Encode; use Storable;
my %h; $h{length $_}++ for map { "x" x ($_ % 17) } 1 .. 5000;
print join(",", map { "$_:$h{$_}" } sort { $a <=> $b } keys %h), "\n";
print sha256_hex(join "", map { chr(65 + $_ % 26) } 1 .. 9999), " ", floor(3.7), "\n";
my $t = "a1b22c333"; my @m = $t =~ /([a-z])(\d+)/g; print "@m\n";
print length(Encode::decode("UTF-8", "\xc3\xa4\xe2\x82\xac")), "\n";
store { a => [1, 2, 3] }, "st"; print scalar @{ retrieve("st")->{a} }, "\n";
$| = 1; my $pid = fork; if (!$pid) { exit 3 } waitpid $pid, 0; print "child ", $? >> 8, "\n";
die "on purpose\n";
END
perl s.pl; echo "status $?"
"""),
    Case("git", "init, 20 commits, merge, log, blame, gc, fsck, clone", ("git",), "Merge branch", r"""
export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b
export GIT_AUTHOR_DATE='2020-01-01T00:00:00Z' GIT_COMMITTER_DATE='2020-01-01T00:00:00Z'
export GIT_CONFIG_NOSYSTEM=1
git -c init.defaultBranch=main init -q r; cd r
for i in $(seq 20); do echo "$i" >> f; git add f; git commit -q -m "commit $i"; done
git checkout -q -b side HEAD~5; echo s > g; git add g; git commit -q -m side
git checkout -q main; git merge -q -m "Merge branch 'side'" side
git log --oneline --graph | head -8; git blame -s f | tail -2; git diff --stat HEAD~3
git gc -q; git fsck; git clone -q . ../c; git -C ../c rev-parse HEAD; git checkout nothing; echo "status $?"
"""),
    Case("sqlite3", "50,000 rows, index, join, window functions, integrity check", ("sqlite3",), "69993.0", r"""
sqlite3 t.db <<'END'
create table t(id integer primary key, g int, v real);
with recursive n(i) as (select 1 union all select i+1 from n where i<50000)
  insert into t select i, i%97, i*0.5 from n;
create index x on t(g, v);
select g, count(*), sum(v) from t group by g order by 3 desc limit 5;
select count(*) from t a join t b on a.id=b.g;
select id, sum(v) over (order by id rows 3 preceding) from t where id%9999=0;
pragma integrity_check;
END
sqlite3 t.db 'select * from missing'; echo "status $?"
"""),
    Case("redis", "server on the loopback, redis-cli: lists, Lua, 20,000 keys",
         ("redis-server", "redis-cli"), "PONG", r"""
port=$(perl -MIO::Socket::INET -e 'print IO::Socket::INET->new(Listen=>1,LocalAddr=>"127.0.0.1")->sockport')
timeout 30 redis-server --bind 127.0.0.1 --port "$port" --save '' --appendonly no > log 2>&1 &
server=$!
c() { redis-cli -p "$port" "$@"; }
for i in $(seq 100); do c ping > pong 2>&1 && break; sleep 0.05; done; cat pong
c set k v; c get k; c incrby n 41; c incr n; c rpush l a b c; c lrange l 0 -1
c eval 'local s = 0; for i = 1, 20000 do redis.call("set", "key:" .. i, i); s = s + i end; return s' 0
c dbsize; c zadd z 2 b 1 a; c zrange z 0 -1 withscores; c hincrbyfloat h f 1.5; c wrong
c shutdown nosave; wait $server; echo "status $?"; grep -c 'Ready to accept' log
"""),
    Case("gcc", "compiles, assembles and links; object file and program equal", ("gcc",), "42 primes", r"""
cat > p.c <<'END'
#include <stdio.h>
#include <math.h>
int main(void) {
    int n = 0;
    for (int i = 2; i < 182; i++) {
        int p = 1;
        for (int j = 2; j <= (int)sqrt(i); j++) p &= i % j != 0;
        n += p;
    }
    printf("%d primes\n", n);
    return n;
}
END
gcc -O2 -Wall -c p.c && sha256sum p.o && gcc -g0 -O2 -o p p.c -lm && sha256sum p && ./p; echo "status $?"
echo 'int main(void) { return x; }' > e.c; gcc -c e.c; echo "status $?"
"""),
    Case("node", "JavaScript: JIT, crypto, workers, promises, child process", ("node",), "worker 4950", r"""
cat > s.js <<'END'
const { Worker, isMainThread, parentPort } = require('worker_threads');
const crypto = require('crypto'), zlib = require('zlib'), cp = require('child_process');
if (!isMainThread) { let s = 0; for (let i = 0; i < 100; i++) s += i; parentPort.postMessage(s); return; }
let x = 0; for (let i = 0; i < 3e6; i++) x = (x * 31 + i) % 1000003; console.log(x);
console.log(crypto.createHash('sha256').update('mvld').digest('hex'));
console.log(zlib.gunzipSync(zlib.gzipSync(Buffer.alloc(100000, 'ab'))).length);
console.log(cp.execSync('echo from a child').toString().trim());
new Worker(__filename).on('message', s => { console.log('worker', s); process.exitCode = 6; });
END
node s.js; echo "status $?"
"""),
    Case("java", "javac and the JVM: JIT, threads, garbage collection, exception", ("javac", "java"),
         "status 9", r"""
cat > S.java <<'END'
import java.util.*; import java.util.stream.*;
public class S {
    public static void main(String[] a) throws Exception {
        System.out.println(IntStream.range(0, 2000000).parallel().filter(i -> i % 7 == 0).count());
        List<byte[]> l = new ArrayList<>();
        for (int i = 0; i < 2000; i++) { l.add(new byte[100000]); if (l.size() > 50) l.clear(); }
        Thread t = new Thread(() -> System.out.println("thread")); t.start(); t.join();
        try { Object o = null; o.hashCode(); } catch (NullPointerException e) { System.out.println("caught"); }
        System.exit(9);
    }
}
END
javac S.java && java -Xmx128m S; echo "status $?"
"""),
]
