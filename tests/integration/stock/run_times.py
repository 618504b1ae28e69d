# SPDX-License-Identifier: MIT
"""Run times of languages that walk their own stacks, or bring large numeric libraries."""
from stock.case import Case

CASES = [
    Case("r", "svd, linear and other fits, an optimiser, plots to PDF, PNG and SVG",
         ("r-base-core", "libopenblas0-pthread"), ("Rscript", "/usr/lib/R/bin/exec/R"),
         ("[1] 1.684810e+01", "Multiple R-squared:  0.8268", "on purpose"), under=("Rscript", "R"),
         script=r"""
cat > s.R <<'END'
print(svd(matrix(1:9, 3))$d)
print(summary(lm(mpg ~ wt + hp, mtcars)))
print(coef(nls(dist ~ a * speed ^ b, cars, start = list(a = 1, b = 1))), digits = 5)
print(optim(c(-1.2, 1), function(x) 100 * (x[2] - x[1]^2)^2 + (1 - x[1])^2)$convergence)
set.seed(7); m <- matrix(rnorm(10000), 100); print(signif(sum(solve(m) %*% m), 6))
print(summary(eigen(crossprod(m))$values))
for (f in c("p.pdf", "p.png", "p.svg")) {
    switch(f, p.pdf = pdf(f), p.png = png(f, type = "cairo"), p.svg = svg(f))
    plot(mtcars$wt, mtcars$mpg, main = "fit"); abline(lm(mpg ~ wt, mtcars)); hist(mtcars$hp)
    invisible(dev.off())
}
print(tryCatch(stop("on purpose"), error = conditionMessage)); quit(status = 3)
END
Rscript --vanilla s.R; echo "status $?"; sed -i '/Date/d' p.pdf; sha256sum p.*
"""),
    Case("ocaml", "native code and bytecode: collections under deep stacks, exceptions, marshalling",
         ("ocaml-nox",), ("ocamlopt.opt", "ocamlrun", "ocamlc.opt"),
         ("238894", "stopped at 777", "100000", "finalised", "made here"),
         under=("native", "ocamlrun", "ocamlopt.opt", "ocamlc.opt"),
         make=r"""
cat > p.ml <<'END'
exception Stop of int
let rec f n = if n = 0 then [] else string_of_int n :: f (n - 1)
let rec deep n = if n = 0 then 0 else 1 + deep (n - 1)
let () =
  for _ = 1 to 100 do ignore (List.map (fun s -> s ^ "x") (f 10000)) done;
  let t = Hashtbl.create 7 in List.iter (fun s -> Hashtbl.replace t s (String.length s)) (f 50000);
  Gc.compact (); Printf.printf "%d\n" (Hashtbl.fold (fun _ n s -> n + s) t 0);
  (try List.iteri (fun i _ -> if i = 777 then raise (Stop i)) (f 1000)
   with Stop n -> Printf.printf "stopped at %d\n" n);
  Printf.printf "%d\n" (deep 100000);
  let l : string list = Marshal.from_string (Marshal.to_string (f 1000) []) 0 in
  Printf.printf "%d\n" (List.length l);
  Gc.finalise (fun _ -> print_endline "finalised") (ref 2); Gc.full_major ();
  print_endline "ok"
END
ocamlopt.opt -g -o native p.ml; ocamlc.opt -g -o bytecode p.ml
""", script=r"""
$MADE/native; echo "status $?"; ocamlrun $MADE/bytecode; echo "status $?"
for i in 1 2 3 4 5 6; do echo "let () = print_endline \"made here\" let f$i x = List.map (fun y -> y + x) [1; 2]" > m$i.ml; done
ocamlopt.opt -o m m1.ml m2.ml m3.ml m4.ml m5.ml m6.ml; ./m; ocamlc.opt -o b m1.ml; ocamlrun b
echo 'let x : int = "a"' > wrong.ml; ocamlopt.opt -c wrong.ml; echo "status $?"
"""),
    Case("ocaml-threads", "native code with system threads, fork and a backtrace",
         ("ocaml-nox",), ("ocamlopt.opt",), ("threads 160000", "child 3", "Raised at Stdlib.failwith"),
         under=("native",), make=r"""
cat > t.ml <<'END'
let () =
  let total = ref 0 and m = Mutex.create () in
  let work i = let l = List.init 20000 (fun j -> string_of_int (i + j)) in
    Mutex.lock m; total := !total + List.length l; Mutex.unlock m in
  List.iter Thread.join (List.init 8 (Thread.create work)); Printf.printf "threads %d\n%!" !total;
  (match Unix.fork () with
   | 0 -> Gc.compact (); exit 3
   | pid -> match snd (Unix.waitpid [] pid) with
     | Unix.WEXITED n -> Printf.printf "child %d\n%!" n | _ -> ());
  Printexc.record_backtrace true; failwith "on purpose"
END
ocamlopt.opt -g -I +threads unix.cmxa threads.cmxa -o native t.ml
""", script=r"""
for i in 1 2 3; do $MADE/native; echo "status $?"; done
"""),
    Case("ghc", "the compiler and its interpreter; programs: threaded, with shared libraries, PIE",
         ("ghc",), ("ghc", "runghc"), ("255012750000", "divide by zero", "caught on purpose", "status 4"),
         under=("plain", "threaded", "shared", "pie", "ghc"), timeout=240, make=r"""
cat > P.hs <<'END'
import Control.Concurrent
import Control.Exception
import Control.Monad
import Data.List (foldl', sort)
import qualified Data.Map.Strict as M
import System.Exit
import System.Mem
main :: IO ()
main = do
  let m = foldl' (\t k -> M.insertWith (+) (show (k `mod` 1000)) k t) M.empty [1 .. 200000 :: Int]
  print (M.size m, M.foldl' (+) 0 m)
  performGC
  done <- newEmptyMVar
  forM_ [1 .. 50 :: Int] $ \i -> forkIO (putMVar done $! sum (map (* i) [1 .. 20000]))
  replicateM 50 (takeMVar done) >>= print . sum . sort
  (try (evaluate (1 `div` (0 :: Int))) :: IO (Either ArithException Int)) >>= print
  handle (\e -> putStrLn ("caught " ++ takeWhile (/= '\n') (show (e :: ErrorCall)))) (error "on purpose")
  print (length (show (2 ^ (100000 :: Int) :: Integer)))
  exitWith (ExitFailure 4)
END
ghc -O -v0 -outputdir o1 -o plain P.hs; ghc -O -v0 -threaded -rtsopts -outputdir o2 -o threaded P.hs
ghc -O -v0 -dynamic -outputdir o3 -o shared P.hs; ghc -O -v0 -dynamic -fPIC -pie -outputdir o4 -o pie P.hs
""", script=r"""
for p in plain "threaded +RTS -N2 -A1m" shared pie; do $MADE/$p; echo "status $?"; done
runghc $MADE/P.hs; echo "status $?"; echo 'main = print (sum [1 .. 10 :: Int])' > Q.hs; ghc -O -v0 Q.hs; ./Q
echo 'main = putStrLn 1' > W.hs; ghc -v0 W.hs; echo "status $?"
"""),
    Case("pandoc", "a large program of GHC's: Markdown to HTML, LaTeX, DOCX and back",
         ("pandoc",), ("pandoc",), ("<code>code</code>",), script=r"""
printf '# A\n\nsome *text*, `code` and a [link](x)\n\n| a | b |\n|---|---|\n| 1 | 2 |\n' > d.md
for i in $(seq 300); do printf '## %d\n\n1. one $x^%d$\n2. two\n\n> quoted\n\n' $i $i; done >> d.md
pandoc d.md -t html | head -20; for t in latex native html5 rst man; do pandoc d.md -s -t $t 2>&1 | sha256sum; done
pandoc d.md -o d.docx; pandoc d.docx -t markdown | sha256sum; pandoc nothing.md; echo "status $?"
"""),
    Case("sbcl", "hash tables, threads, a child, libm, the compiler; an executable that it saves",
         ("sbcl",), ("sbcl",), ("75025 SBCL", "threads 800000", "from a child", "saved 6765", "status 5"),
         under=("sbcl", "saved"), script=r"""
cat > s.lisp <<'END'
(defun fib (n) (declare (fixnum n)) (if (< n 2) n (+ (fib (- n 1)) (fib (- n 2)))))
(format t "~a ~a~%" (fib 25) (lisp-implementation-type))
(defvar *h* (make-hash-table :test #'equal))
(dotimes (i 200000) (setf (gethash (format nil "~a" (mod i 5000)) *h*) (list i)))
(gc :full t) (format t "~a ~a~%" (hash-table-count *h*) (expt 3 200))
(defun work () (loop for j below 100000 sum (length (list 1 j))))
(format t "threads ~a~%" (reduce #'+ (mapcar #'sb-thread:join-thread (loop repeat 4 collect (sb-thread:make-thread #'work)))))
(format t "~a" (with-output-to-string (s) (sb-ext:run-program "/bin/echo" '("from a child") :output s)))
(sb-alien:load-shared-object "libm.so.6")
(format t "~,6f~%" (sb-alien:alien-funcall (sb-alien:extern-alien "cos" (function double-float double-float)) 1d0))
(handler-case (/ 1 0) (division-by-zero () (format t "caught~%")))
(format t "~a~%" (funcall (compile nil '(lambda (x) (* x x))) 12)) (require :sb-posix)
(finish-output)
(save-lisp-and-die "saved" :executable t :toplevel (lambda () (format t "saved ~a~%" (fib 20)) (gc :full t) (exit :code 5)))
END
sbcl --script s.lisp 2>&1 | grep -v '^\[\|^writing\|^compress\|^scanning'; ./saved; echo "status $?"
"""),
    Case("erlang", "processes, tables, collections, regular expressions, a child, an exit",
         ("erlang-base",), ("erl", "erlc"), ("ring", "{777,603729}", "from a child", "on_purpose", "status 6"),
         under=("erlc", "beam.smp", "erlexec"), script=r"""
cat > s.erl <<'END'
-module(s).
-export([main/0, ring/2]).
fib(N) when N < 2 -> N; fib(N) -> fib(N - 1) + fib(N - 2).
ring(0, Pid) -> Pid ! done;
ring(N, Pid) -> spawn(?MODULE, ring, [N - 1, Pid]).
main() ->
    io:format("~p ~p~n", [fib(24), erlang:phash2(lists:seq(1, 1000))]),
    ring(5000, self()), receive done -> io:format("ring~n") end,
    T = ets:new(t, [set]), [ets:insert(T, {I, I * I}) || I <- lists:seq(1, 50000)],
    erlang:garbage_collect(), io:format("~p ~p~n", [ets:info(T, size), ets:lookup(T, 777)]),
    io:format("~s~p~n", [os:cmd("echo from a child"), erlang:md5("mvld")]),
    io:format("~p~n", [byte_size(zlib:compress(binary:copy(<<"ab">>, 100000)))]),
    io:format("~p~n", [re:run("a1b22", "([a-z])(\\d+)", [global, {capture, all, list}])]),
    {P, R} = spawn_monitor(fun() -> exit(on_purpose) end),
    receive {'DOWN', R, process, P, Why} -> io:format("~p ~p~n", [Why, element(1, catch hd([]))]) end,
    init:stop(6).
END
erlc s.erl && erl -noshell -s s main; echo "status $?"; erl +S 2 -noshell -eval 'io:format("~p~n", [lists:sum([X || X <- lists:seq(1, 99)])]), halt(2).'; echo "status $?"
"""),
    Case("mono", "its compiler and JIT: LINQ, collections, threads, tasks, libm, exceptions",
         ("mono-mcs", "mono-runtime"), ("mcs", "mono"), ("285715", "0.540302", "caught", "status 7"),
         under=("mono",), script=r"""
cat > s.cs <<'END'
using System; using System.Collections.Generic; using System.Linq; using System.Runtime.InteropServices;
using System.Text.RegularExpressions; using System.Threading; using System.Threading.Tasks;
class S {
    [DllImport("libm.so.6")] static extern double cos(double x);
    static int Main() {
        Console.WriteLine(Enumerable.Range(0, 2000000).AsParallel().Where(i => i % 7 == 0).Count());
        var l = new List<byte[]>();
        for (int i = 0; i < 5000; i++) { l.Add(new byte[50000]); if (l.Count > 50) l.Clear(); }
        GC.Collect(); Console.WriteLine(GC.CollectionCount(0) > 0);
        var d = new Dictionary<string, int>(); for (int i = 0; i < 100000; i++) d[(i % 999).ToString()] = i;
        Console.WriteLine(d.Values.Sum() + " " + cos(1.0).ToString("F6"));
        Console.WriteLine(string.Join(",", Regex.Matches("a1b22", "[0-9]+").Cast<Match>().Select(m => m.Value)));
        var t = new Thread(() => Console.WriteLine("thread")); t.Start(); t.Join();
        Console.WriteLine(Task.WhenAll(Enumerable.Range(0, 20).Select(i => Task.Run(() => i * i))).Result.Sum());
        try { object o = null; o.GetHashCode(); } catch (NullReferenceException) { Console.WriteLine("caught"); }
        try { throw new Exception("on purpose"); } catch (Exception e) { Console.WriteLine(e.Message); }
        return 7;
    }
}
END
mcs s.cs; mono s.exe; echo "status $?"; mono -O=all s.exe; echo "status $?"
"""),
    Case("octave", "dense and sparse algebra, a differential equation, maps, files, an error",
         ("octave",), ("octave-cli",), ("34.000000", "1.570796", "from a child", "on purpose", "at the end"),
         under=("octave-cli", "sh"), script=r"""
cat > s.m <<'END'
printf("%.6f ", svd(magic(4))); printf("\n"); A = magic(50) + eye(50); printf("%.6f\n", norm(A \ ones(50, 1)));
printf("%.6f\n", abs(fft(1:8))(2)); s = sparse(1:100, 1:100, 2); printf("%g\n", full(sum(s(:))));
[t, y] = ode45(@(t, y) -y, [0 1], 1); printf("%.4f\n", y(end)); printf("%.6f\n", fzero(@cos, 1));
disp(regexp("a1b22", '\d+', "match")); disp(eig([2 0; 0 3])'); z = containers.Map(); z("k") = 7; disp(z("k"));
disp(cellfun(@(c) numel(c), {1:3, 1:5})); [~, o] = system("echo from a child"); printf("%s", o);
try; error("on purpose"); catch e; disp(e.message); end; [q, r] = qr(magic(4)); disp(norm(q * r - magic(4)) < 1e-9);
save("-text", "s.txt", "A"); B = load("s.txt"); disp(isequal(A, B.A)); x = inv(hilb(6)); printf("%.3f\n", x(1));
error("at the end")
END
octave-cli --norc s.m; echo "status $?"
"""),
]
