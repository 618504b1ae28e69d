# SPDX-License-Identifier: MIT
"""Interpreters, with the extension modules that they load at run time."""
from stock.case import Case

CASES = [
    Case("python3", "sqlite3, ssl, ctypes, threads, subprocesses, exceptions",
         ("python3",), ("python3",), ("ValueError",), cheap=True,
         under=("python3", "sh", "uname"),
         script=r"""
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
python3 s.py; echo "status $?"
"""),
    Case("perl", "regular expressions, XS modules, fork, sort, sprintf",
         ("perl",), ("perl",), ("child 3",), cheap=True,
         script=r"""
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
    Case("node", "JavaScript: JIT, crypto, workers, promises, child process",
         ("nodejs",), ("node",), ("worker 4950",), cheap=True,
         under=("node", "sh"),
         script=r"""
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
    Case("java", "javac and the JVM: JIT, threads, garbage collection, exception",
         ("openjdk-17-jdk-headless",), ("javac", "java"), ("status 9",), cheap=False,
         script=r"""
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
    Case("python3-lib", "numpy and lxml: 60 extension modules, BLAS, XSLT, pickling to children",
         ("python3-lxml", "python3-numpy", "python3"),
         ("python3", "/usr/lib/python3/dist-packages/lxml", "/usr/lib/python3/dist-packages/numpy"),
         ("[4, 9, 16]", "error on purpose"), under=("python3",), script=r"""
cat > s.py <<'END'
import multiprocessing, sys
import numpy as np
from lxml import etree
def square(n): return n * n
if __name__ == "__main__":
    a = np.arange(10000, dtype=float).reshape(100, 100)
    print((a @ a.T).sum(), np.linalg.matrix_rank(a), np.fft.fft(np.ones(8))[0].real)
    print(np.sort(np.random.default_rng(7).integers(0, 1000, 10)), np.linalg.inv([[2., 0], [0, 4]]))
    print(np.random.default_rng(7).normal(size=2000).reshape(2, -1).std(axis=1).round(6))
    t = etree.fromstring("<a>" + "".join(f"<b n='{i}'/>" for i in range(3000)) + "</a>")
    print(t.xpath("sum(//b/@n)"), len(etree.tostring(t)))
    x = etree.XSLT(etree.fromstring('<xsl:stylesheet version="1.0" '
        'xmlns:xsl="http://www.w3.org/1999/XSL/Transform"><xsl:template match="/">'
        '<n><xsl:value-of select="count(//b)"/></n></xsl:template></xsl:stylesheet>'))
    print(str(x(t)).split("\n")[1])
    for way in ("fork", "spawn"):
        with multiprocessing.get_context(way).Pool(2) as pool: print(pool.map(square, [2, 3, 4]))
    try: etree.fromstring("<a><b></a>")
    except etree.XMLSyntaxError as e: print(e)
    print(len([n for n, m in sys.modules.items() if getattr(m, "__file__", "") and m.__file__.endswith(".so")]) > 40)
    sys.exit("error on purpose")
END
python3 s.py; echo "status $?"
"""),
    Case("ruby", "extension modules, fibers, threads, fork, regular expressions, an exception",
         ("ruby",), ("ruby",), ("fiber 5", "on purpose"), script=r"""
cat > s.rb <<'END'
require 'json'; require 'digest'; require 'zlib'; require 'openssl'; require 'socket'; require 'bigdecimal'
puts Digest::SHA256.hexdigest(JSON.generate((1..50).to_a)), Zlib.crc32("mvld"), BigDecimal("1") / 3
f = Fiber.new { 5.times { |i| Fiber.yield i }; 5 }; 5.times { f.resume }; puts "fiber #{f.resume}"
puts (1..8).map { |i| Thread.new { (1..1000).sum * i } }.sum(&:value)
puts OpenSSL::HMAC.hexdigest('sha256', 'k', 'v'), 'a1b22'.scan(/([a-z])(\d+)/).inspect
a, b = UNIXSocket.pair; pid = fork { b.puts 'from the child'; exit! 3 }; puts a.gets; Process.wait pid
puts $?.exitstatus, `echo shell`, GC.start.inspect, ObjectSpace.respond_to?(:each_object)
s = 0; 300_000.times { |i| s = (s * 31 + i) % 1_000_003 }; puts s
raise 'on purpose'
END
ruby s.rb; echo "status $?"
"""),
    Case("lua", "closures, coroutines, string patterns, popen, an error with a traceback",
         ("lua5.4",), ("lua5.4",), ("sum 5000050000", "stack traceback"), script=r"""
cat > s.lua <<'END'
local s = 0; for i = 1, 100000 do s = s + i end; print("sum " .. s)
local co = coroutine.wrap(function() for w in ("a b c"):gmatch("%a") do coroutine.yield(w) end end)
print(co(), co(), co()); print(("%5.2f|%q"):format(math.pi, "x\n"), #table.pack(string.byte("mvld", 1, -1)))
local p = io.popen("echo child"); print(p:read("a")); print(p:close()); print(os.execute("exit 3"))
table.sort({3, 1, 2}); print(select("#", load("return 1, 2, 3")())); print(pcall(error, "caught"))
error("on purpose")
END
lua5.4 s.lua; echo "status $?"
"""),
    Case("tcl", "lists, dictionaries, exec, sockets, threads' event loop, an error",
         ("tcl",), ("tclsh",), ("echoed hello", "on purpose"), script=r"""
cat > s.tcl <<'END'
set d [dict create]; foreach w {b a b c b} { dict incr d $w }; puts [lsort -stride 2 [dict get $d]]
proc serve {c a p} { puts $c "echoed [gets $c]"; close $c }
set s [socket -server serve -myaddr 127.0.0.1 0]; set port [lindex [fconfigure $s -sockname] 2]
set c [socket 127.0.0.1 $port]; puts $c hello; flush $c
fileevent $c readable { puts [gets $c]; set done 1 }; vwait done
puts [exec sh -c {echo child; exit 0}]; puts [expr {2 ** 100}]; puts [zlib crc32 mvld]
puts [clock format 0 -gmt 1 -format %Y-%m-%d]; puts [regexp -inline {(\d+)-(\d+)} a12-34]
puts [catch {exec false} m]; error "on purpose"
END
tclsh s.tcl; echo "status $?"
"""),
    Case("php", "opcache, PDO with SQLite, DOM, regular expressions, a child, an uncaught error",
         ("php-cli", "php-sqlite3", "php-xml"), ("php",), ("499500", "on purpose"),
         probe="php -r 'exit(extension_loaded(\"pdo_sqlite\") && extension_loaded(\"dom\") ? 0 : 1);'", script=r"""
cat > s.php <<'END'
<?php
$db = new PDO('sqlite::memory:'); $db->exec('create table t(a)'); $q = $db->prepare('insert into t values(?)');
for ($i = 0; $i < 1000; $i++) $q->execute([$i]);
echo $db->query('select sum(a) from t')->fetchColumn(), "\n";
$x = new DOMDocument; $x->loadXML('<a><b>1</b><b>2</b></a>'); echo $x->getElementsByTagName('b')->length, "\n";
echo hash('sha256', json_encode(range(1, 50))), ' ', preg_replace('/(\d+)/', '<$1>', 'a1b22'), "\n";
function f($n) { return $n < 2 ? $n : f($n - 1) + f($n - 2); } echo f(22), "\n";
echo shell_exec('echo child'), strlen(gzcompress(str_repeat('ab', 5000))) < 100 ? "small\n" : "large\n";
function g() { for ($i = 0; $i < 3; $i++) yield $i; } echo implode(',', iterator_to_array(g())), "\n";
throw new Exception('on purpose');
END
php -n -v | head -1 | cut -d' ' -f1; php -d opcache.enable_cli=1 -d display_errors=stderr -d log_errors=0 s.php; echo "status $?"
"""),
    Case("guile", "compiles a program, then runs it: bignums, tail calls, continuations",
         ("guile-3.0",), ("guile-3.0",), ("leaped 3", "on purpose"),
         script=r"""
cat > s.scm <<'END'
(use-modules (srfi srfi-1) (ice-9 threads) (ice-9 regex) (ice-9 popen) (ice-9 rdelim))
(define (fact n) (if (= n 0) 1 (* n (fact (- n 1))))) (display (fact 60)) (newline)
(define (loop n) (if (> n 0) (loop (- n 1)) 'done)) (display (loop 1000000)) (newline)
(display "leaped ") (display (call/cc (lambda (k) (for-each (lambda (x) (if (= x 3) (k x))) (iota 9)) 0)))
(newline) (display (par-map (lambda (x) (* x x)) (iota 8))) (newline)
(display (match:substring (string-match "[0-9]+" "abc123"))) (newline)
(let* ((p (open-input-pipe "echo child")) (l (read-line p))) (close-pipe p) (display l)) (newline)
(error "on purpose")
END
GUILE_AUTO_COMPILE=0 guile-3.0 -s s.scm 2>&1 | grep -v '^In \|^ *[0-9]* [^ ]*$'; guile-3.0 -c '(use-modules (system base compile)) (compile-file "s.scm" #:output-file "s.go")' && ls s.go
"""),
    Case("emacs", "--batch: Lisp, byte compiler, sorting, regular expressions, a subprocess",
         ("emacs-nox",), ("emacs",), ("(1 2 3)", "from a child", "on purpose"), timeout=180, script=r"""
cat > s.el <<'END'
(require 'cl-lib) (require 'json) (require 'dired)
(princ (format "%S\n" (sort (list 3 1 2) #'<)))
(defun fib (n) (if (< n 2) n (+ (fib (- n 1)) (fib (- n 2))))) (byte-compile 'fib) (princ (format "%d\n" (fib 20)))
(with-temp-buffer (dotimes (i 500) (insert (format "line %d\n" i))) (sort-lines t (point-min) (point-max))
  (princ (buffer-substring 1 (line-end-position 1))) (princ (secure-hash 'sha256 (buffer-string))))
(terpri) (princ (shell-command-to-string "echo from a child"))
(princ (json-encode '((a . 1) (b . [1 2])))) (terpri)
(with-temp-file "out.c" (insert "int main(){return 0;}")) (find-file "out.c") (indent-region 1 (point-max))
(princ (format "%s %d\n" major-mode (buffer-size))) (error "on purpose")
END
emacs -Q --batch -l s.el 2>&1; echo "status $?"
"""),
    Case("expect", "a dialogue with a shell, bc-like awk and cat on pseudo terminals",
         ("tcl-expect", "expect"), ("expect",), ("answered 42", "status 6"), script=r"""
cat > s.exp <<'END'
log_user 0; set timeout 10
spawn sh -c {printf "name? "; read n; echo "hello $n"; exit 6}
expect "name? "; send "mvld\r"; expect -re {hello (\w+)} { puts "got $expect_out(1,string)" }
expect eof; puts "status [lindex [wait] 3]"
spawn -noecho awk {{print "answered " $1 * 6; fflush()}}; send "7\r"
expect -re {answered \d+} { puts $expect_out(0,string) } timeout { puts timeout }
close; wait; exit 2
END
expect -f s.exp; echo "status $?"
"""),
]
