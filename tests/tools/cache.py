#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""`mvld build` and `mvld cache`.

A failure means that a snapshot is not made, or is listed, verified or removed for what
it is not; or that something that is no snapshot is removed.
"""
import fcntl
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from support import ANSWER_PROGRAM, check, contains, equal, finish, run

mvld, loader, answer = map(os.path.abspath, sys.argv[1:4])

with tempfile.TemporaryDirectory() as scratch:
    scratch = Path(scratch)
    images = scratch / "cache/mvld/snapshots"
    program = scratch / "program"
    (scratch / "program.c").write_text(ANSWER_PROGRAM)
    subprocess.run(["gcc", "-O1", "-rdynamic", "program.c", "-o", program], cwd=scratch, check=True,
                   timeout=60)
    config = scratch / "mvld.conf"
    config.write_text(f"[app]\nmatch = {program}\npasses = answer\n")
    env = {"XDG_CACHE_HOME": str(scratch / "cache"), "MVLD_CONFIG": str(config),
           "MVLD_PASS_PATH": os.path.dirname(answer)}

    def cache(*words, code=0, folder=images, **more):
        """Never without a folder: that would be the machine's own."""
        found = run(mvld, "cache", *words, folder, env=dict(env, **more))
        equal((found[0], found[2]), (code, ""), f"mvld cache {' '.join(map(str, words))}")
        return "".join(line for line in found[1].splitlines(True) if not line.startswith("On disk "))

    def doctor(*before):
        found = json.loads(run(*before, mvld, "doctor", "--json", env=dict(env, PATH=os.environ["PATH"]))[1])
        return {f["name"]: (f["state"], f["text"]) for f in found if f["part"] == "Caches"}

    def build(program=program, code=0, loader=loader, **more):
        found = run(mvld, "build", "--loader", loader, program, env=dict(env, **more))
        equal(found[0], code, f"mvld build: {found[2]}")
        return found[2] if code else Path(found[1].strip())

    contains(run(mvld, "cache", "list", images, env=env)[2], f"{images}: No such file", "a folder that is not there")
    equal(run(mvld, "cache", "verify", config, env=env)[0], 1, "no folder")
    equal(run(mvld, "cache", "list", env=env)[2], "", "there need not be any")
    image = build()
    check(image.parent == images and (image / "manifest").exists(), f"{image} is a snapshot")
    for option in "", "--check":
        status, said, _ = run(mvld, "build", "--json", *option.split(), "--loader", loader, program, env=env)
        found = json.loads(said)
        listed = json.loads(cache("list", "--json"))
        equal((status, [found], found["path"], found["lacks"]), (0, listed, str(image), []), f"mvld build --json {option}")
    status, said, why = run(mvld, "build", "--json", "--option", "answer.none=1", program, env=env)
    equal((status, json.loads(said)), (1, None), f"mvld build --json that fails: {why}")
    equal(run(mvld, "build", "--json", program / "none", env=env)[:2], (126, "null\n"), "its exit code")
    equal(run(mvld, "build", "--json", "--run", program, env=env)[:2], (2, ""), "the program's output is no JSON")
    equal(run(mvld, "build", "--check", "--run", program, env=env)[:2], (2, ""), "--check runs nothing")
    equal(run(mvld, "build", program, "other", env=env)[:2], (2, ""), "a second program")
    if os.path.ismount("/sys"):  # where nobody can make a folder
        contains(build(code=1, XDG_CACHE_HOME="/sys"), "the folder of the cache cannot be made (error ", "why there is no lock")
    equal(run(mvld, "run", "--json", program, env=env)[0], 2, "mvld run --json")
    contains(cache("list"), f"good        {program}  0.0 MiB of code of 1 of ", "list")
    contains(run(mvld, "cache", "list", env=env)[1], f"good        {program} ", "the user's cache")
    contains(cache("verify"), "good ", "verify")
    equal(cache("prune"), cache("list"), "prune leaves what is good")
    more = scratch / "more.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-x", "c", "/dev/null", "-o", more], check=True)
    other = build(LD_PRELOAD=str(more), LD_BIND_NOW="yes")
    equal(cache("list").count(f", of starts with LD_BIND_NOW=1 LD_PRELOAD={more}; "), 1, "list: for which starts")
    equal(cache("prune"), cache("list"), "prune leaves what is good for other starts")
    more.unlink()
    contains(cache("prune"), f"out of date {other} removed", "prune: what was preloaded is gone")

    # What is no snapshot, or is being written, is not touched.  What a killed build left goes.
    other = images / "other"
    other.mkdir()
    (other / "manifest").write_text("mine")
    (images / ".new").mkdir()
    (images / ".new" / "0-half").write_text("")
    with open(images.parent / "lock", "r+") as lock:  # somebody writes
        fcntl.lockf(lock, fcntl.LOCK_EX)
        check("unfinished" not in cache("list"), "list: what is being written")
        equal(doctor()["snapshots of user"], ("ok", f"{images}: 2"), "doctor: what is being written")
    contains(cache("list"), f"unfinished  {images}/.new: ", "list: what was left")
    left, = [item for item in json.loads(cache("list", "--json")) if item["state"] == "unfinished"]
    equal((left["path"], left["kind"], left["remedy"]), (f"{images}/.new", "snapshot", "mvld cache prune"), "list, as JSON")
    equal(doctor()["snapshots of user"], ("absent", f"{images}: 2; a build that was stopped has left what it had "
                                       "written"), "doctor: what was left")
    (scratch / "folder").mkdir()
    (scratch / "folder" / "manifest").write_text("mine")
    equal(cache("prune", "--all", folder=scratch), "", "a folder that holds no snapshots")
    equal(cache("prune"), f"unfinished  {images}/.new removed\n" + cache("list"), "prune: what was left")
    check(not (images / ".new").exists(), "it is still there")
    (images / ".new").mkdir()
    (images / ".new" / "0-half").write_bytes(bytes(1 << 16))
    took = (images / ".new" / "0-half").stat().st_blocks * 512
    removed, = json.loads(cache("prune", "--json"))
    equal((removed["path"], removed["state"], removed["size"]), (f"{images}/.new", "unfinished", took), "prune, as JSON")
    check(took and not (images / ".new").exists(), "it is still there")
    # What somebody else made there: what build and prune do with it is what they and the doctor say.
    for make in os.mkfifo, Path.touch, Path.mkdir, lambda path: path.symlink_to(scratch / "folder"):
        make(images / ".new")
        equal(doctor()["snapshots of user"][0], "absent", "doctor: what can be removed")
        contains(cache("prune"), f"unfinished  {images}/.new removed\n", "prune: what can be removed")
    (images / ".new").mkdir()
    (images / ".new" / "mine").write_text("mine")
    contains(cache("list"), f"unfinished  {images}/.new: something is in it that is not of mvld", "list: of others")
    left, = [item for item in json.loads(cache("list", "--json")) if item["state"] == "unfinished"]
    equal((left["why"], left["remedy"]), ("something is in it that is not of mvld", None), "list, as JSON: of others")
    equal(doctor()["snapshots of user"], ("problem", f"{images}/.new: something is in it that is not of mvld"),
          "doctor: of others")
    contains(build(code=1), f"{images}/.new: something is in it that is not of mvld", "build: of others")
    found = run(mvld, "cache", "prune", images, env=env)
    equal(found[0], 1, "prune: of others")
    contains(found[2], f"{images}/.new: not removed: something is in it", "prune: of others")
    equal((images / ".new" / "mine").read_text(), "mine", "prune: of others")
    shutil.rmtree(images / ".new")
    equal((scratch / "folder" / "manifest").read_text(), "mine", "prune: what a link leads to")
    equal(cache("prune", "--all"), f"good        {image} removed\n", "prune --all")
    check(not image.exists() and (other / "manifest").exists() and
          (scratch / "folder" / "manifest").exists(), "only snapshots are removed")

    # Made by another build of mvld: its loader has another build-id.
    other_loader = scratch / "ld-mvld.so.1"
    with open(loader, "rb") as file:
        built = bytearray(file.read())
    note = built.index(b"\x14\0\0\0\3\0\0\0GNU\0")
    built[note + 12] ^= 1
    other_loader.write_bytes(built)
    other_loader.chmod(0o755)
    image = build(loader=other_loader)
    contains(cache("list"), f"other mvld  {program} ", "list: another build's")
    contains(cache("list"), f"Another mvld than {loader} made 1 of 1: ", "list: what to do")
    equal(doctor()["snapshots of user"], ("absent", f"{images}: 2; no start takes 1 that another mvld made, 0 whose "
                                       "files were replaced, 0 damaged"), "doctor: another build's")
    contains(cache("verify"), "another build of mvld", "verify: another build's")
    contains(cache("prune"), f"other mvld  {program} ", "prune: that mvld may be in use")
    check((image / "manifest").exists(), "another build's image stays")
    contains(cache("prune", "--other-mvld"), f"other mvld  {image} removed", "prune: another build's")
    # But not when its files are others now, for then that mvld does not take it either.
    image = build(loader=other_loader)
    shutil.copy(program, scratch / "new")
    (scratch / "new").rename(program)
    contains(cache("list"), "out of date ", "list: another build's, of a file that was replaced")
    equal(cache("prune"), f"out of date {image} removed\n", "prune: the same")
    image = build()
    equal(doctor()["snapshots of user"], ("ok", f"{images}: 2"), "doctor: a good one")

    # A pass that was built anew is another file: no start looks where this image lies.
    passes = scratch / "passes"
    passes.mkdir()
    shutil.copy(answer, passes / "answer.so")
    renewed = {"MVLD_PASS_PATH": str(passes)}
    image = build(**renewed)
    check(len(list(images.glob("*-*/manifest"))) == 2, "two passes, two images")
    equal(cache("list").count("it was made by another pass than "), 1, "list: another pass")
    contains(cache("list", **renewed), f"another pass than {passes}/answer.so", "list: which")
    contains(cache("list", **renewed), "made 1 of 2", "list: how many")
    (passes / "answer.so").unlink()
    equal(cache("list", MVLD_PASS_PATH=str(scratch)).count("good "), 2, "list: no pass, so nothing to compare with")
    contains(cache("prune", "--other-mvld"), f"other mvld  {image} removed", "prune: another pass")
    equal(len(list(images.glob("*-*/manifest"))), 1, "the good one stays")

    # A file that the pass reads.
    (scratch / "read").write_text("one")
    before = config.read_text()
    config.write_text(f"{before}[answer]\nfile = {scratch}/read\n")
    image = build()
    contains(cache("verify"), f"good        {program}", "a file is read")
    (scratch / "read").unlink()
    contains(cache("list"), f"{scratch}/read, which a pass read, is another file now", "list: a file that was read is gone")
    contains(str(doctor()["snapshots of user"]), "1 whose files were replaced", "doctor: the same")
    contains(cache("prune"), f"out of date {image} removed", "prune: the same")
    config.write_text(before)

    # Root's for the same starts is tried before the user's, and has other distances.
    image = build()
    inside = ["unshare", "--mount", "--propagation", "private", "--", "sh", "-c",
              f"mount -t tmpfs -o mode=755 none /var/cache && mkdir -p /var/cache/mvld/snapshots && "
              f"cp -r {scratch}/roots /var/cache/mvld/snapshots/{image.name} && exec \"$@\"", "sh"]
    shutil.copytree(image, scratch / "roots")
    if not os.geteuid() and not run(*inside, "true")[0]:
        def users():
            return str(doctor(*inside)["snapshots of user"])

        equal(doctor(*inside)["snapshots of user"][0], "ok", "doctor: a user's that lies as root's")
        image = build()
        contains(users(), "no start takes 1 that are older than root's", "doctor: a user's that does not")
        found = run(*inside, mvld, "build", "--loader", loader, program, env=env)
        equal((found[0], Path(found[1].strip())), (0, image), "built as root's lies")
        check("older" not in users(), "doctor: a user's that lies as root's")

    # The record of the CPU, where there is one.
    record = scratch / "cache/mvld/cpu"
    if record.exists():
        whole = record.read_bytes()
        equal(doctor()["CPU of user"][0], "ok", "a record that fits")
        record.write_bytes(whole[:-1])
        contains(str(doctor()["CPU of user"]), "it is damaged", "a damaged record")
        record.write_bytes(whole)
    image = build()
    whole = (image / "manifest").read_bytes()
    (image / "manifest").write_bytes(whole[:8] + b"\xff\0\0\0" + whole[12:])
    contains(cache("verify"), f"other mvld  {image}: it is of another version", "verify: an old format")
    contains(cache("prune"), f"other mvld  {image}: it is of another version", "prune: an old format")
    contains(cache("prune", "--other-mvld"), f"other mvld  {image} removed", "prune: an old format")

    # Out of date, and damaged.
    image = build()
    shutil.copy(program, scratch / "new")
    (scratch / "new").rename(program)
    contains(cache("list"), "out of date ", "list")
    contains(cache("verify"), "is another file now", "verify")
    contains(cache("prune"), f"out of date {image} removed", "prune")
    image = build()
    (image / "manifest").write_bytes(b"damage")
    contains(cache("verify", code=1), "damaged ", "verify")
    (image / "manifest").unlink()
    (image / "7-some.so").write_text("rest")
    contains(cache("prune"), f"damaged     {image} removed", "prune")
    check(not image.exists(), "the rest of a snapshot is removed")

    # What cannot be built does not run.
    shutil.copy("/bin/echo", program)
    contains(build(code=1, MVLD="off"), "MVLD=off", "switched off")
    contains(build(code=1), "no pass changed any code", "nothing to keep")
    config.write_text("[app]\nmatch = /nothing\npasses = answer\n")
    contains(build(code=1), "no pass is configured", "no pipeline")
    config.write_text("[app]\nmatch = *\npasses = nothing\n")
    contains(build(code=1), "there is no pass 'nothing'", "a wrong pipeline")
    for option in ("--all", "--other-mvld"):
        contains(run(mvld, "cache", "list", option, env=env)[2], f"{option}", f"{option} is for prune")
    equal(run(mvld, "cache", "frob", env=env), (2, "", "mvld cache: list, verify or prune, not frob; see mvld cache --help\n"),
          "no such action")
finish()
