# SPDX-License-Identifier: Apache-2.0
"""Four commands write one store and are killed at random moments, again and again: kill_commands.py COMMAND

Two sweeps, an import and a merge. After each round the store is whole by PRAGMA integrity_check and has: every row that
a command reported or that another process could read before, all rows of an import and a merge or none, each point of
the sweep once. In the end the same commands finish without help. HEADROOM_TEST=whole: 100 rounds, otherwise 5.
HEADROOM_TEST_SEED chooses the moments."""
import contextlib
import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time

COMMAND = os.path.abspath(sys.argv[1])
POINTS = 150
ROWS = 100  # of an import or a merge
SWEEP = {"name": "killed", "x": "m", "axes": {"m": {"from": 1, "to": POINTS, "step": 1}}, "series": "all",
         "problem": {"kind": "gemm", "m": "m", "n": 4, "k": 4}}


def row(group, number):
    return {"operation": "gemm", "dtype": "bf16", "batch": 1, "m": 1 + number, "n": 1 + group, "k": 8,
            "transpose_a": False, "transpose_b": False, "status": "ok", "id": f"{group:016d}{number:016d}",
            "date": "2026-01-01T00:00:00.000Z"}


def write_rows(group):
    path = f"rows{group}.jsonl"
    with open(path, "w") as file:
        file.writelines(json.dumps(row(group, i)) + "\n" for i in range(ROWS))
    return path


def start(*arguments):
    return subprocess.Popen([COMMAND, *arguments], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                            stderr=subprocess.STDOUT)


def start_all(group):
    """The commands by what they write: a group of rows, or None for a sweep."""
    write_rows(group)
    other = write_rows(group + 1)
    subprocess.run([COMMAND, "results", "import", "-q", "--db", "other.db", other], check=True,
                   stdout=subprocess.DEVNULL)
    sweep = ("sweep", "./sweep.json", "-d", "reference", "--dtype", "fp32", "--time-limit", "0.001", "--db", "a.db", "-q")
    writers = [(start(*sweep), None), (start(*sweep), None),
               (start("results", "import", "--db", "a.db", f"rows{group}.jsonl"), group),
               (start("results", "merge", "--db", "a.db", "other.db"), group + 1)]
    return writers


def read_store():
    """The groups with their rows, and the sweep's points, as any other program sees them."""
    if not os.path.exists("a.db"):
        return {}, []
    with contextlib.closing(sqlite3.connect("a.db", timeout=10)) as store:
        if not store.execute("SELECT 1 FROM sqlite_master WHERE name = 'results'").fetchall():
            return {}, []
        groups = {}
        for identity, in store.execute("SELECT id FROM results WHERE sweep IS NULL OR sweep != 'killed'"):
            groups.setdefault(int(identity[:16]), set()).add(int(identity[16:]))
        return groups, [m for m, in store.execute("SELECT m FROM results WHERE sweep = 'killed'")]


def check_store(told, seen):
    with contextlib.closing(sqlite3.connect("a.db", timeout=10)) as store:
        assert store.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    groups, points = read_store()
    assert len(points) == len(set(points)), "a point has two rows"
    assert seen <= set(points), f"rows that could be read are gone: {seen - set(points)}"
    for group, rows in groups.items():
        assert len(rows) == ROWS, f"group {group} has {len(rows)} of {ROWS} rows"
    assert told <= set(groups), f"reported rows are gone: {told - set(groups)}"
    left = {name for name in os.listdir() if name.startswith(("a.db", ".headroom"))} - {"a.db"}
    assert left <= {"a.db-journal"}, left
    return set(points)


def run_round(group, delay, told, seen, counts):
    writers = start_all(group)
    time.sleep(delay)
    with contextlib.suppress(sqlite3.OperationalError):  # locked: nothing is seen
        groups, points = read_store()
        told.update(groups)
        seen.update(points)
    random.shuffle(writers)
    for process, _ in writers:
        process.send_signal(signal.SIGKILL)
    for process, written in writers:
        output = process.communicate()[0]
        counts["killed" if process.returncode == -signal.SIGKILL else "finished"] += 1
        assert process.returncode in (0, -signal.SIGKILL), output
        if process.returncode == 0 and written is not None:
            told.add(written)
    seen |= check_store(told, seen) if os.path.exists("a.db") else set()


def main():
    rounds = 100 if "whole" in os.environ.get("HEADROOM_TEST", "") else 5
    random.seed(int(os.environ.get("HEADROOM_TEST_SEED", "19")))
    os.environ.update(HEADROOM_PROBE="0", OMP_WAIT_POLICY="passive", LC_ALL="C")
    told, seen, counts = set(), set(), {"killed": 0, "finished": 0}
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None  # else each row waits for the disk
    with tempfile.TemporaryDirectory(dir=memory) as folder:
        os.chdir(folder)
        os.environ["HOME"] = folder
        with open("sweep.json", "w") as file:
            json.dump(SWEEP, file)
        for number in range(rounds):
            if number % 4 == 3:  # a store that is made by several at once
                os.replace("a.db", "before.db")
                told, seen = set(), set()
            run_round(2 * number, random.uniform(0.002, 0.06), told, seen, counts)
        for process, group in start_all(2 * rounds):
            output = process.communicate()[0]
            assert process.returncode == 0, output
            told |= {group} - {None}
        assert check_store(told, seen) == set(range(1, POINTS + 1)), "the sweep has all points"
        os.chdir("/")
    print(f"{rounds} rounds: {counts['killed']} processes killed, {counts['finished']} finished before")
    assert counts["killed"] > rounds


main()
