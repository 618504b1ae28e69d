# SPDX-License-Identifier: MIT
"""openssl.py [--rounds N] [--seconds N] [--profile FILE] [NAME...]: messages of 16 bytes through
OpenSSL's EVP (evp.c), by digest and cipher, under the host loader and with passes over code.

Beside them stands the same program linked statically, of the libcrypto.a and libc.a of the same packages:
nothing of it goes through a PLT, so it shows what direct calls can bring at most.  It is no upper bound
to the per cent, because its code lies elsewhere (DECISIONS.md).  With --profile there is one way more, concat
in the order of this profile, snapshot.

CPU time of the work as everywhere (steady.py); what is printed is the throughput.
"""
import argparse
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "tests")]
import steady  # noqa: E402
import support  # noqa: E402
from programs import HOST, WAYS, Programs  # noqa: E402
from report import progress, say  # noqa: E402

# name -> so many take 10 to 15 ms
MESSAGES = {"SHA256": 120_000, "SHA1": 110_000, "MD5": 70_000, "AES-128-GCM": 100_000,
            "AES-128-CBC": 1_000_000, "ChaCha20-Poly1305": 240_000}
STATIC = "linked statically"
BY_PROFILE = "concat by profile, snapshot"


def linked_statically(output):
    """The program, or None where there is no library for it."""
    done = subprocess.run([support.CC, "-O2", "-static", HERE / "evp.c", "-o", output, "-lcrypto"],
                          capture_output=True, timeout=60)
    return None if done.returncode else output


def jobs(programs, static, arguments):
    of = programs.works("evp", arguments)
    if static:
        of[STATIC] = ([str(static), *arguments], of[HOST][1])
    return of


def throughput(change):
    """Per cent that the same time brings more, of what takes so many per cent longer."""
    return 100 * (100 / (100 + change) - 1)


def show(name, works, quiet):
    first = works[HOST]
    for way, work in works.items():
        note = f"{quiet[0]} of {quiet[1]} runs undisturbed"
        if way != HOST:
            change = steady.Change(work, first)
            low, high = throughput(change.high), throughput(change.low)
            note = f"{throughput(change.value):+.1f} % ({low:+.1f} to {high:+.1f})"
        print(f"result: {name}, {way} | {MESSAGES[name] / work.value / 1000:.2f} | million/s | {note}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--seconds", type=int, default=80, help="at most, for each name")
    parser.add_argument("--profile", type=Path)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(MESSAGES))
    arguments = parser.parse_intermixed_args()
    names = arguments.names or list(MESSAGES)
    unknown = set(names) - set(MESSAGES)
    support.check(not unknown, f"not known: {', '.join(unknown)}")
    if arguments.profile:
        WAYS[BY_PROFILE] = ("direct-calls, concat", True, "concat.order = profile",
                            f"concat.profile = {arguments.profile.resolve()}")
    with support.scratch_folder() as folder:
        programs = Programs(folder, ["evp"], WAYS)
        if "evp" not in programs.possible:
            return
        static = linked_statically(folder / "static")
        if not static:
            say("    there is no libcrypto.a, so nothing is linked statically")
        for name in names:
            progress(name)
            show(name, *steady.works(jobs(programs, static, [str(MESSAGES[name]), name]),
                                     jobs(programs, static, ["1", name]),
                                     arguments.rounds, arguments.seconds))


if __name__ == "__main__":
    main()
