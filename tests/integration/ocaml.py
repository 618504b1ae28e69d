#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Native OCaml under passes: collects garbage, raises, reads closures that another start wrote.

A failure means that OCaml's run time does not find a return address in its frame tables, or that
its code has other bytes than the file.
"""
import os
import shutil
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import support  # noqa: E402

SOURCE = r"""
exception Deep of int
let rec strings n = if n = 0 then [] else string_of_int n :: strings (n - 1)
let rec deep n = if n = 0 then raise (Deep 7) else 1 + deep (n - 1)
let wave k = fun x -> sin x +. cos (k *. x)
let () =
  for _i = 1 to 20 do ignore (List.map (fun s -> s ^ "x") (strings 10000)) done;
  Gc.compact ();
  (try ignore (deep 1000) with Deep k -> Printf.printf "deep %d\n" k);
  if not (Sys.file_exists Sys.argv.(1)) then begin
    let out = open_out_bin Sys.argv.(1) in
    Marshal.to_channel out (wave 2.0) [Marshal.Closures]; close_out out
  end;
  let f : float -> float = Marshal.from_channel (open_in_bin Sys.argv.(1)) in
  Printf.printf "%.6f\n" (f 1.0)
"""

if not shutil.which("ocamlopt"):
    support.skip("ocamlopt is missing")
with support.scratch_folder() as folder:
    (folder / "program.ml").write_text(SOURCE)
    for name, options in (("pie", ["-ccopt", "-pie"]), ("fixed", ["-ccopt", "-no-pie"])):
        program, closure = folder / name, folder / f"{name}.closure"
        done = subprocess.run(["ocamlopt", *options, "-o", program, "program.ml"], cwd=folder,
                              capture_output=True, text=True, timeout=100)
        support.check(done.returncode == 0, done.stderr)
        libraries = Path(os.path.realpath(support.HOST_LOADER)).parent
        environment = support.moving(folder, program, libraries / "libc.so.6", libraries / "libm.so.6")
        plain = support.run([program, closure])
        support.check(plain.returncode == 0, plain.stderr)
        for passes in ("direct-calls", "direct-calls, concat"):
            for way in ("transform", "learn", "learn"):
                done = support.run([support.LOADER, program, closure], **environment, config=(
                    f"[app]\nmatch = {program}\npasses = {passes}\non-miss = {way}\n" +
                    support.COPY * ("concat" in passes)))
                support.check((done.returncode, done.stdout) == (0, plain.stdout),
                              f"{name}, {passes}, {way}: {done}")
