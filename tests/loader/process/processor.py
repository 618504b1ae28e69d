#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""processor.py BEHAVIOUR: what the CPU answered an earlier process (rimf/base/cpu.h), in programs whose
pass does nothing that matters.

A program must know of the CPU what it knows under the host loader, whatever the record says.
Each function below is one test; its text says what a failure means.
"""
import os
import re
import struct
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1]))
import support  # noqa: E402
from support import check  # noqa: E402

START = "loader/start/programs"
HEADER, ANSWER = 32, 24  # bytes
BASIS = 4  # answers, the first
USED, ANOTHER = r"cpuid: \S+/cpu: \d+ answers", "the CPU, or the hypervisor, is another one"
UNUSED = r"/cpu: not used"


class Program:
    """A program that starts from a snapshot: the pass changes its library."""

    def __init__(self, folder):
        self.folder, self.cache, self.passes = folder, folder / "cache", folder / "passes"
        self.passes.mkdir()
        support.take(self.passes, "loader/store/snapshot", "answer.so")
        support.take(folder, "loader/store/snapshot", "libanswer.so")
        support.take(folder, START, "features=program", "cpuid", "confine")
        self.path, self.record = folder / "program", self.cache / "mvld" / "cpu"
        # Some of what a program knows is of one CPU, and some are addresses.
        plain = [self.run(MVLD="off").stdout.splitlines() for _ in range(3)]
        self.stable = {i for i in range(len(plain[0])) if len({run[i] for run in plain}) == 1}
        check(len(self.stable) > 10, "the host loader knows something else each time")
        self.plain = plain[0]

    def run(self, *words, prefix=(), status=0, passes="answer", keys="",
            **environment):
        environment.setdefault("MVLD_DEBUG", "files,passes")
        done = support.run(["taskset", "-c", str(min(os.sched_getaffinity(0))), *prefix, self.path, *words],
                           timeout=300, MVLD_PASS_PATH=self.passes, XDG_CACHE_HOME=self.cache, TELL_MAPPED=1,  # a stepper is slow
                           config=f"[app]\nmatch = {self.path}\npasses = {passes}\n{keys}" if passes else "",
                           **environment)
        check(done.returncode == status, f"status {done.returncode}\n{done.stdout}{done.stderr}")
        return done

    def make_snapshot(self):
        folder = Path(self.run(MVLD_SNAPSHOT=1).stdout.strip())
        check((folder / "manifest").is_file(), "there is no snapshot")
        if not self.record.exists():
            said = self.run(MVLD_SNAPSHOT=1).stderr
            check("there is no hypervisor" in said or "of different kinds" in said or
                  "too few questions" in said, said)
            support.skip("nothing of this CPU's is kept")
        return folder

    def differs(self, done):
        now = done.stdout.splitlines()
        return [f"{self.plain[i]} is {now[i]}" for i in self.stable if self.plain[i] != now[i]]

    def same(self, said, **options):
        """The log says that, and what the program knows is as under the host loader."""
        done = self.run(**options)
        check(re.search(said, done.stderr), f"wanted '{said}':\n{done.stderr}")
        check(not self.differs(done), f"it knows something else: {self.differs(done)}")
        return done

    def is_known(self, done):
        return re.search(r"hooked: .* (\d+) of cpuid", done.stderr)[1] != "0"


def mix(value, word):
    value = (value ^ word) * 0x9e3779b97f4a7c15 & (1 << 64) - 1
    return value ^ value >> 29


def with_checksum(data):
    """As rimf_hash; a record is a multiple of 8 bytes long."""
    data = data[:16] + bytes(8) + data[24:]
    value = mix(0, len(data))
    for word, in struct.iter_unpack("<Q", data):
        value = mix(value, word)
    return data[:16] + struct.pack("<Q", value) + data[24:]


def changed(data, at, bits):
    return with_checksum(data[:at] + bytes([data[at] ^ bits]) + data[at + 1:])


def question(leaf, subleaf):
    return leaf, subleaf if leaf in (4, 7, 0xd, 0x14, 0x19, 0x8000001d) else 0


def questions(done):
    """What programs/cpuid.c saw asked."""
    return [question(int(leaf, 16), int(subleaf, 16))
            for leaf, subleaf in re.findall(r"^(\w+) (\w+):(?: \w+){4}$", done.stdout, re.M)]


def known(program):
    """A program knows another CPU than under the host loader; or its loader asks for what an earlier
    process was told."""
    folder = program.make_snapshot()
    done = program.run()
    if not program.is_known(done):
        support.skip("this host loader is not the one of the build, or there is no objdump")
    for _ in range(3):
        program.same(USED)
    check("libanswer.so" in support.from_snapshot(program.run()), done.stderr)
    data = program.record.read_bytes()
    answers = [question(*struct.unpack_from("<2I", data, at)) for at in range(HEADER, len(data), ANSWER)]
    asked = {way: questions(program.run(prefix=[program.folder / "cpuid"], MVLD=way)) for way in ("off", "on")}
    # The basis is asked once, by us.  With glibc 2.41 one question more, because its cpuid cannot be a jump.
    again = [one for one in asked["on"] if one in answers]
    check(again[:BASIS] == answers[:BASIS] and len(again) <= BASIS + 1, f"asked: {asked}")
    check(len(asked["on"]) + 5 < len(asked["off"]), f"asked: {asked}")
    # The record is for programs without a snapshot, too, where they have passes.
    (folder / "manifest").unlink()
    program.same(USED)
    check("cpuid: " not in program.same("hooked", passes="").stderr, "a user's is looked for without need")
    program.record.unlink()
    check("cpuid: " not in program.same("hooked").stderr, "something is said of nothing")


def roots(program):
    """Root's record is not for programs with passes; or is looked for by others, which would ask whose it
    is: a call that the host loader does not make."""
    program.make_snapshot()
    program.record.rename(program.folder / "record")
    stepper = program.folder / "cpuid"
    config = {}
    for way, match in ("configured", program.path), ("not", "/nonexistent"):
        config[way] = program.folder / f"{way}.conf"
        config[way].write_text(f"[app]\nmatch = {match}\npasses = answer\n")
    inside = ["unshare", "--mount", "--propagation", "private", "--", "sh", "-c",
              'mount -t tmpfs -o mode=755 none /var/cache && mkdir /var/cache/mvld && '
              f'cp {program.folder}/record /var/cache/mvld/cpu && chmod 644 /var/cache/mvld/cpu && exec "$@"', "sh"]
    if os.geteuid() or support.run([*inside, "true"]).returncode:
        support.skip("a mount of its own is not to be had")
    if not program.is_known(program.run()):
        support.skip("this host loader is not the one of the build, or there is no objdump")
    asked = {}
    for way, path in config.items():
        done = support.run([*inside, stepper, program.path], timeout=150, MVLD_CONFIG=path,
                           MVLD_PASS_PATH=program.passes)
        check(done.returncode == 0, done.stdout + done.stderr)
        asked[way] = len(questions(done))
    check(asked["configured"] + 5 < asked["not"], f"asked: {asked}")
    program.same(r"cpuid: /var/cache/mvld/cpu: \d+ answers", prefix=inside)
    check("cpuid: " not in program.same("hooked", prefix=inside, passes="").stderr, "without passes")


def another(program):
    """A program gets another CPU's answers, or none from memory."""
    program.make_snapshot()
    data = program.record.read_bytes()
    check(with_checksum(data) == data, "the checksum is another one")
    if not program.is_known(program.run()):
        support.skip("this host loader is not the one of the build, or there is no objdump")
    places = [24] + [HEADER + ANSWER * i + 8 + 4 * j for i in range(4) for j in range(4)]
    for at in places:
        program.record.write_bytes(changed(data, at, 1 << at % 7))
        program.same(ANOTHER)
    program.record.write_bytes(changed(data, HEADER + 8 + 7, 0x5a)) # the number of the CPU
    program.same(USED)
    # And those that count are given indeed: another cache of the second level.
    answers = [struct.unpack_from("<6I", data, at) for at in range(HEADER, len(data), ANSWER)]
    leaves = [answer[0] for answer in answers]
    if answers[3][3] == 0x444d4163: # "cAMD"
        program.record.write_bytes(changed(data, HEADER + ANSWER * leaves.index(0x80000006) + 16 + 2, 0x10))
        differs = program.differs(program.run())
        check(any("sysconf" in line for line in differs), f"not given: {differs}")
    for leaf in 0x80000001, 7, 0xb:
        at = HEADER + ANSWER * leaves.index(0x80000006)
        program.record.write_bytes(with_checksum(data[:at] + struct.pack("<I", leaf) + data[at + 4:]))
        program.same("it holds what is never kept")


def damage(program):
    """A damaged record, or one of somebody else, is used, or keeps a program from running."""
    program.make_snapshot()
    record = program.record
    whole = record.read_bytes()
    if not program.is_known(program.run()):
        support.skip("this host loader is not the one of the build, or there is no objdump")
    for at in range(0, len(whole), 37):
        record.write_bytes(whole[:at] + bytes([whole[at] ^ 1 << at % 8]) + whole[at + 1:])
        program.same(UNUSED)
    for size in 0, 1, 31, 32, 128, len(whole) - 1, len(whole) + 24, 1 << 20:
        record.write_bytes((whole + bytes(1 << 20))[:size])
        program.same(UNUSED)
    record.write_bytes(whole)
    for mode, good in (0o664, False), (0o646, False), (0o600, True):
        record.chmod(mode)
        program.same(USED if good else UNUSED)
    if os.getuid() == 0:
        os.chown(record, 65534, 65534)
        program.same(UNUSED)
        os.chown(record, 0, 0)
    aside = record.with_name("aside")
    record.rename(aside)
    record.symlink_to(aside)
    program.same(UNUSED)
    record.unlink()
    os.mkfifo(record)
    program.same(UNUSED)
    record.unlink()
    record.mkdir()
    program.same(UNUSED)
    # A record that does not fit is replaced when a snapshot is written, and at no other time.
    record.rmdir()
    record.write_bytes(whole[:-1])
    program.make_snapshot()
    check(record.read_bytes() == whole, "it is not made anew")
    program.same(USED)
    written = record.stat().st_mtime_ns
    program.make_snapshot()
    check(record.stat().st_mtime_ns == written, "one that fits is written again")
    check([path.name for path in record.parent.glob("cpu*")] == ["cpu"], "something is left over")


def main():
    support.need(support.LOADER)
    with support.scratch_folder() as folder:
        globals()[sys.argv[1]](Program(folder))


main()
