#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Programs of others are reached under load, again and again: each checks its own work all the time, or its clients do,
and at the end nothing was wrong, and nothing lost.  A round is a call of getpid(), a function of libc that `mvld patch`
replaces, or the undoing of that, a list of `mvld switch`, or `mvld status`.  Run by hand; it takes long.

    programs.py BUILD [ROUNDS [PROGRAM...]]        ROUNDS: 1000; PROGRAM: python, node, java, go, nginx, redis

Says for each how many of the rounds reached it, what the others said, and the longest pause of a thread in microseconds.
"""
import collections
import http.client
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

BUILD, ROUNDS = Path(sys.argv[1]).resolve(), int(sys.argv[2]) if len(sys.argv) > 2 else 1000
GETPID = BUILD / "tests" / "tools" / "getpid"

# Each says "ready"; at the end of its input "whole", when four threads found their work right all the time.
PYTHON = r"""
import sys, threading, time, hashlib
bad, going = [], True
def work():
    while going:
        if hashlib.sha256(b"x" * 1000).hexdigest()[:8] != GOOD: bad.append(1)
        time.sleep(0.001)
GOOD = hashlib.sha256(b"x" * 1000).hexdigest()[:8]
threads = [threading.Thread(target=work) for _ in range(4)]
[t.start() for t in threads]
print("ready", flush=True); sys.stdin.read(); going = False
[t.join() for t in threads]
print("wrong" if bad else "whole", flush=True)
"""
NODE = r"""
const { Worker, isMainThread, parentPort } = require('worker_threads'), crypto = require('crypto');
const hash = () => crypto.createHash('sha256').update('x'.repeat(1000)).digest('hex'), good = hash();
if (!isMainThread) setInterval(() => { if (hash() !== good) parentPort.postMessage('bad'); }, 1);
else {
  let bad = 0;
  const workers = [1, 2, 3, 4].map(() => { const w = new Worker(__filename); w.on('message', () => bad++); return w; });
  console.log('ready');
  process.stdin.on('end', () => { console.log(bad ? 'wrong' : 'whole'); process.exit(0); }).resume();
}
"""
JAVA = r"""
public class Work {
    static volatile boolean going = true; static volatile int bad;
    static int hash() { int h = 0; byte[] b = new byte[10000]; for (int i = 0; i < b.length; i++) h = h * 31 + i + b[i]; return h; }
    public static void main(String[] a) throws Exception {
        int good = hash(); Thread[] threads = new Thread[4];
        for (int i = 0; i < 4; i++) (threads[i] = new Thread(() -> { while (going) { if (hash() != good) bad++;
            try { Thread.sleep(1); } catch (InterruptedException e) { bad++; } } })).start();
        System.out.println("ready"); while (System.in.read() >= 0); going = false;
        for (Thread t : threads) t.join();
        System.out.println(bad > 0 ? "wrong" : "whole");
    }
}
"""
GO = r"""
package main
// #include <unistd.h>
import "C"
import ("crypto/sha256"; "fmt"; "io"; "os"; "sync/atomic"; "time")
func hash() [32]byte { return sha256.Sum256(make([]byte, 10000)) }
func main() {
    var bad int64; good := hash(); C.getpid() // so libc is there
    for i := 0; i < 4; i++ { go func() { for { if hash() != good { atomic.AddInt64(&bad, 1) }; time.Sleep(time.Millisecond) } }() }
    fmt.Println("ready"); io.Copy(io.Discard, os.Stdin)
    if bad > 0 { fmt.Println("wrong") } else { fmt.Println("whole") }
}
"""


def rounds_of(pid, folder):
    """The commands of the rounds, with the words that each says where it reached the process."""
    other = folder / "other.so"
    subprocess.run(["gcc", "-shared", "-fPIC", "-xc", "-o", other, "-"], input="int getppid(void) { return 1; }", text=True, check=True)
    mvld, library = [BUILD / "tools" / "mvld"], "libc.so:getppid"
    return [([GETPID, pid, "1"], f"{pid} "), ([*mvld, "patch", "-p", pid, "--replace", f"{library}={other}:getppid"], "1 function replaced"),
            ([*mvld, "status", "-p", pid], f"process {pid} "), ([*mvld, "patch", "-p", pid, "--undo", library], "1 function as before"),
            ([*mvld, "switch", "-p", pid], "has no switches")]


def reach(pid, folder):
    """Asks so often; what came of it."""
    said, longest, rounds = collections.Counter(), 0, rounds_of(str(pid), folder)
    for n in range(ROUNDS):
        command, wanted = rounds[n % len(rounds)]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60)
        if wanted in done.stdout:
            pause = re.search(rf"^{pid} (\d+)$|stopped for (\d+) us", done.stdout)
            longest = max(longest, int(pause[1] or pause[2]) if pause else 0)
            said["reached"] += 1
        else:
            said[done.stdout.replace(str(pid), "PID").strip() or f"status {done.returncode}"] += 1
    return dict(said), longest


def checks_itself(folder, command, **how):
    p = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, **how)
    if p.stdout.readline() != "ready\n":
        return "did not start"
    said = reach(p.pid, folder)
    p.stdin.close()
    end = (p.stdout.read(), p.wait(60))
    return said if end == ("whole\n", 0) else f"NOT WHOLE: {end}, {said}"


def python(folder):
    (folder / "work.py").write_text(PYTHON)
    return checks_itself(folder, [sys.executable, folder / "work.py"])


def node(folder):
    (folder / "work.js").write_text(NODE)
    return checks_itself(folder, ["node", folder / "work.js"])


def java(folder):
    (folder / "Work.java").write_text(JAVA)
    subprocess.run(["javac", "Work.java"], cwd=folder, check=True)
    return checks_itself(folder, ["java", "-cp", folder, "Work"])


def go(folder):
    (folder / "work.go").write_text(GO)
    subprocess.run(["go", "build", "-o", "work", "work.go"], cwd=folder, check=True,
                   env=dict(os.environ, GOCACHE=str(folder / "go"), GO111MODULE="off"))
    return checks_itself(folder, [folder / "work"])


def served(pid, folder, ask):
    """`ask` raises when an answer is wrong; eight clients."""
    wrong, n, going = [], [0] * 8, True

    def client(i):
        try:
            asks = ask(i)
            while going:
                next(asks)
                n[i] += 1
        except Exception as error:  # whatever it is, it is not what an undisturbed server does
            wrong.append(repr(error))

    clients = [threading.Thread(target=client, args=(i,), daemon=True) for i in range(8)]
    for c in clients:
        c.start()
    said = reach(pid, folder)
    going = False
    for c in clients:
        c.join()
    return f"WRONG: {wrong}, {said}" if wrong else (*said, f"{sum(n)} requests")


def nginx(folder):
    (folder / "page").write_text("x" * 5000)
    (folder / "conf").write_text(f"""daemon off; master_process off; pid {folder}/pid; error_log {folder}/log;
        events {{}} http {{ access_log off; client_body_temp_path {folder}/b; proxy_temp_path {folder}/p;
        fastcgi_temp_path {folder}/f; uwsgi_temp_path {folder}/u; scgi_temp_path {folder}/s;
        server {{ listen 127.0.0.1:18437; root {folder}; keepalive_requests 100000000; }} }}""")
    folder.chmod(0o755)
    p = subprocess.Popen(["nginx", "-c", folder / "conf"], stderr=subprocess.DEVNULL)
    time.sleep(1)

    def ask(_):
        c = http.client.HTTPConnection("127.0.0.1", 18437)
        while True:
            c.request("GET", "/page")
            assert c.getresponse().read() == b"x" * 5000
            yield

    said = served(p.pid, folder, ask)
    p.terminate()
    p.wait(20)
    return said


def redis(folder):
    p = subprocess.Popen(["redis-server", "--port", "0", "--unixsocket", folder / "socket", "--save", ""],
                         stdout=subprocess.DEVNULL, cwd=folder)
    time.sleep(1)

    def ask(i):
        s = socket.socket(socket.AF_UNIX)
        s.connect(str(folder / "socket"))
        f, n = s.makefile("rb"), 0
        while True:
            n += 1
            s.sendall(b"INCR key%d\r\n" % i)
            assert f.readline() == b":%d\r\n" % n
            yield

    said = served(p.pid, folder, ask)
    p.terminate()
    p.wait(20)
    return said


PROGRAMS = {"python": python, "node": node, "java": java, "go": go, "nginx": nginx, "redis": redis}
failed = 0
for name in sys.argv[3:] or PROGRAMS:
    if not shutil.which({"redis": "redis-server", "python": "python3"}.get(name, name)):
        print(f"{name}: is missing")
        continue
    with tempfile.TemporaryDirectory() as scratch:
        result = PROGRAMS[name](Path(scratch))
    failed |= isinstance(result, str)
    print(f"{name}: {result}", flush=True)
sys.exit(failed)
