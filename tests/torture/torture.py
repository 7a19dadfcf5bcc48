# SPDX-License-Identifier: Apache-2.0
"""torture.py COMMAND FAULTS [SAMPLES [CALLS…]]: runs commands, and CALLS (calls_*.c), again and again; each time another
allocation fails (FAULTS is fail_allocations.c as a library), once alone and once with all later ones. A command then
ends with exit code 5 and says that memory ran out, or its output, its messages and the store are those of a run without
the fault. A measurement may also store `out_of_memory` as its result. SAMPLES of each command's allocations fail; all
of them with HEADROOM_TEST=whole, on as many processors as there are:
  TORTURE_STEP=N     every N-th allocation only, from a random one on
  TORTURE_STATE=DIR  what a finished part printed is kept there and not run again: a run that was cut off goes on
  TORTURE_PART=I/N   only every N-th part, from the I-th on (from 1)
  TORTURE_SECONDS=N  no part begins later
  TORTURE_JOBS=N     this many processes
  TORTURE_ONLY=TEXT  only commands that begin with it, or programs
To see where: TORTURE_FAIL=N TORTURE_TRACE=1 LD_PRELOAD=FAULTS COMMAND…"""
import concurrent.futures
import contextlib
import hashlib
import multiprocessing.util
import os
import random
import re
import shlex
import shutil
import signal
import socket
import sqlite3
import struct
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
INPUTS = os.path.join(os.path.dirname(HERE), "cli", "inputs")
PART = 400      # runs in a part, at most
DISTANCE = 250  # allocations between two stops of a process that serves runs
STEP = int(os.environ.get("TORTURE_STEP", "1"))

# (COMMAND, STORE, WHAT IS COMPARED, HOW): new.db is a copy of the store, `new`: it does not exist, `none`: no store.
# `reads`: the command changes no file, so that a run can begin in the middle of it.
COMMANDS = [
    ("describe config.json", "none", "all", "reads"),
    ("describe config.json -f json", "none", "all", "reads"),
    ("describe llama-3-8b -f csv", "none", "all", "reads"),
    ("describe INPUTS/checkpoint_sharded", "none", "all", "reads"),
    ("describe acme/tiny -f csv", "none", "all", "reads"),
    ("describe config.json -o /dev/stdout", "none", "all", ""),
    ("describe config.json -o saved", "none", "saved", ""),
    ("advise -d h200 llama-2-7b", "none", "all", "reads"),
    ("advise -d h200 llama-2-7b -f markdown", "none", "all", "reads"),
    ("advise -d h200 llama-2-7b -f json", "none", "all", "reads"),
    ("search -d h200 -n 3 --hidden 768 --heads 12 gpt2", "none", "all", "reads"),
    ("serve-plan -d h200 -t 2 -f json gpt2", "none", "all", "reads"),
    ("serve-plan -d h200 -t 2 --trace trace.csv -f json gpt2", "none", "all", "reads"),
    ("serve-plan -d h200 -t 2 --disaggregated --prefill-device h100-sxm --rate 5 --requests 20 -f json gpt2", "none", "all",
     "reads"),
    ("plan -d h200 --devices 2 --global-batch 4 -f json gpt2", "none", "all", "reads"),
    ("sweep list -d h200", "none", "all", "reads"),
    ("help models", "none", "all", "reads"),
    ("kernels", "none", "all", ""),
    ("devices h200", "none", "all", "reads"),
    ("decode -d h200", "none", "all", "reads"),
    ("layer -d h200 gpt2", "none", "all", "reads"),
    ("step INPUTS/../../data/checkpoints/gpt_oss --phase train", "none", "all", "reads"),
    ("generate INPUTS/../../data/checkpoints/llama --prompt-ids 1,2 --tokens 2 --threads 1", "none", "all", ""),
    ("validate -d h200 --from measured.csv -v", "none", "all", "reads"),
    ("calibrate -d h200 --from fitted.csv", "none", "all", ""),
    ("plot fig24 --predict h200 -f text", "none", "all", "reads"),
    ("gemm 64 64 64 -d h200", "none", "all", "reads"),
    ("results list --db new.db", "full.db", "all", "reads"),
    ("results list --db new.db -f json --sweep fig24 --device H200 --since 2026-01 --status ok", "full.db", "all",
     "reads"),
    ("compare new.db new.db -v", "full.db", "all", "reads"),
    ("report new.db --models config.json -d h200", "full.db", "all", "reads"),
    ("results show --db new.db 0a1b", "full.db", "all", "reads"),
    ("results export --db new.db", "full.db", "all", "reads"),
    ("results delete --db new.db 0a1b", "full.db", "all", ""),
    ("results import --db new.db INPUTS/results.jsonl", "full.db", "all", ""),
    ("results import --db new.db INPUTS/results.jsonl", "new", "all", ""),
    ("results merge --db new.db full.db", "new", "all", ""),
    ("attention --heads 4 --k-heads 1 --q-len 9 --dtype fp32 --kernel attention_naive --warm --budget 0.02 -f csv",
     "none", "kernels", ""),
    ("sweep sweep.json -d cpu --dtype fp32 --time-limit 0.001 --db new.db -f csv -q", "new", "points", ""),
    ("sweep sweep.json -d reference --dtype fp32 --time-limit 0.001 --db new.db -f csv -q", "new", "points", ""),
]

CONFIG = """\
{"model_type": "llama", "hidden_size": 4096, "num_attention_heads": 32, "num_hidden_layers": 32, "vocab_size": 32000,
 "num_key_value_heads": 8, "intermediate_size": 11008, "rope_theta": 10000.12345678901234, "rms_norm_eps": 0.00001}
"""
SWEEP = """\
{"name": "small", "title": "Small products", "x": "m", "axes": {"m": [1, 2]}, "series": "all",
 "problem": {"kind": "gemm", "m": "m", "n": 16, "k": 16}}
"""
MEASURED = """\
kind,dtype,m,n,k,time_ns
gemm,bf16,4096,4096,4096,250000
gemm,bf16,8192,8192,8192,1700000
"""
TRACE = "arrival_s,prompt,output\n0,100,20\n0.5,50,3\n"
BEFORE = b"before\n"
POINTS = "sweep,series,axes,operation,problem,dtype"  # columns that do not depend on what became of a measurement


def write_file(name, content):
    with open(name, "wb") as file:
        file.write(content if isinstance(content, bytes) else content.encode())


def read_file(name):
    with open(name, "rb") as file:
        return file.read()


def remove(*names):
    for name in names:
        with contextlib.suppress(FileNotFoundError):
            os.remove(name)


def make_inputs(command):
    """The files that the commands read, and the environment, in the folder of this process."""
    write_file("config.json", CONFIG)
    write_file("sweep.json", SWEEP)
    write_file("measured.csv", MEASURED)
    write_file("trace.csv", TRACE)
    write_file("fitted.csv", "kind,m,n,k,time_ns\n" + "".join(f"gemm,{n * 128},4096,4096,{n * 9000 + 20000}\n"
                                                              for n in range(1, 25)))
    # CUDA's libraries crash where memory runs out in them. A file that is none of them hides them.
    os.mkdir("hidden")
    write_file("hidden/libcuda.so.1", "no library\n")
    write_file("hidden/libnvidia-ml.so.1", "no library\n")
    here = os.getcwd()
    libraries = [here + "/hidden", *filter(None, [os.environ.get("LD_LIBRARY_PATH")])]
    asan = [*filter(None, [os.environ.get("ASAN_OPTIONS")]), "verify_asan_link_order=0"]
    environment = dict(os.environ, LC_ALL="C", HOME=here, XDG_DATA_HOME=here + "/data", HEADROOM_PROBE="0",
                       OMP_WAIT_POLICY="passive", HF_HUB_CACHE=INPUTS + "/hub", LD_LIBRARY_PATH=":".join(libraries),
                       ASAN_OPTIONS=":".join(asan))
    made = subprocess.run([command, "results", "import", "-q", "--db", "full.db", INPUTS + "/results.jsonl"],
                          env=environment, capture_output=True)
    if made.returncode != 0:
        sys.exit(f"the store of the test was not made: {made.stderr}")
    return environment


def read_rows(store, compared):
    """The rows of a store, sorted; None if there is no file."""
    if not os.path.exists(store):
        return None
    with contextlib.closing(sqlite3.connect(store)) as database:
        check = database.execute("PRAGMA integrity_check").fetchall()
        if check != [("ok",)]:
            raise ValueError(f"integrity_check: {check}")
        columns = POINTS if compared == "points" else "*"
        return sorted(map(repr, database.execute(f"SELECT {columns} FROM results")))


def outputs(compared):
    """The parts of the outputs that are the same in each run, from the files that it wrote."""
    text = read_file("saved" if compared == "saved" else "out")
    lines = text.decode("utf-8", "replace").split("\n")
    if compared == "kernels":  # of a CSV table whose first column names a kernel: kernel, whether it was right
        return [",".join(line.split(",")[:1] + line.split(",")[9:10]) for line in lines if "out_of_memory" not in line]
    if compared == "points":  # of a sweep: its points, whatever became of them
        return [",".join(line.split(",")[:4]) for line in lines]
    return [text]


class Case:
    """A command in this process's folder: its run without a fault, then runs with faults."""

    def __init__(self, line, store, compared, how, faults, environment):
        self.line, self.store, self.compared, self.reads = line, store, compared, how == "reads"
        self.words = shlex.split(line.replace("INPUTS", shlex.quote(INPUTS)))
        self.faults, self.environment = faults, environment
        self.kept = read_file(store) if store not in ("none", "new") else None
        self.server, self.stop, self.written, self.runs, self.failures = None, None, {}, 0, []
        self.stored_before = None if self.kept is None else read_rows(store, compared)
        self.prepare()
        base = self.start({"TORTURE_COUNT": "count", "TORTURE_STOPS": str(DISTANCE)}).wait()
        self.base = base, outputs(compared), read_file("errors")
        self.stored_base = self.stored()
        count, *stops = map(int, read_file("count").split())
        self.count, self.stops = count, [0] + (stops if self.reads else [])
        if count <= 20:
            self.failures.append(f"{self.name()}: only {count} allocations were counted")

    def name(self):
        return f"{os.path.basename(self.words[0])} {' '.join(self.words[1:])}".rstrip()

    def stored(self):
        return None if self.store == "none" else read_rows("new.db", self.compared)

    def prepare(self):
        write_file("out", BEFORE)
        write_file("errors", b"")
        write_file("saved", BEFORE)
        if self.store != "none":
            remove("new.db", "new.db-journal", "new.db-wal", "new.db-shm")
            if self.kept is not None:
                write_file("new.db", self.kept)
        shutil.rmtree("data", ignore_errors=True)

    def start(self, settings, descriptors=()):
        with open("out", "ab") as out, open("errors", "ab") as errors:
            environment = dict(self.environment, LD_PRELOAD=self.faults, **settings)
            return subprocess.Popen(self.words, stdin=subprocess.DEVNULL, stdout=out, stderr=errors, env=environment,
                                    pass_fds=descriptors)

    def close(self):
        if self.server:
            self.server.close()
            self.process.wait()
            self.server = None

    def ask(self, *request):
        """What the process that serves runs answers; before the first request, the allocation where it waits."""
        if request:
            self.server.sendall(struct.pack("=qq", *request))
        answer = self.server.recv(8, socket.MSG_WAITALL)
        if len(answer) != 8:
            raise RuntimeError(f"{self.name()}: no answer to {request}: {read_file('errors')[-3000:]}")
        return struct.unpack("=q", answer)[0]

    def serve(self, n):
        """Lets a process wait at the last stop before allocation n."""
        stop = max(stop for stop in self.stops if stop <= n)
        if self.server and stop < self.stop:
            self.close()
        if not self.server:
            self.prepare()
            self.server, other = socket.socketpair()
            self.process = self.start({"TORTURE_SERVE": str(other.fileno())}, (other.fileno(),))
            other.close()
            self.stop = self.ask()
        self.take_back()
        if stop != self.stop:
            self.stop = self.ask(-stop, 0)
            self.written = {name: os.path.getsize(name) for name in ("out", "errors")}
        if stop != self.stop:
            raise RuntimeError(f"{self.name()}: allocation {self.stop} came instead of {stop}")

    def take_back(self):
        """What the last run has written; what the serving process has written stays."""
        if self.stop == 0:
            self.prepare()
            return
        for name, size in self.written.items():
            os.truncate(name, size)

    def run(self, n, after):
        """With allocation n failing, and all later ones if `after`."""
        self.serve(n)
        code = os.waitstatus_to_exitcode(self.ask(n, after))
        self.runs += 1
        for what in self.wrong(code):
            self.failures.append(f"{self.name()}: allocation {n}{' and later' if after else ''}: {what}: "
                                 + read_file("errors")[:3000].decode("utf-8", "replace"))

    def wrong(self, code):
        """What is not as promised after a run."""
        base, seen_base, errors_base = self.base
        out, errors = read_file("out"), read_file("errors")
        if not out.startswith(BEFORE):
            yield "standard output was replaced"
        left = [name for name in os.listdir() if name.startswith(".headroom.")]
        if left:
            remove(*left)
            yield "a temporary file is left behind"
        if self.store != "none" and os.path.exists("new.db") and os.path.getsize("new.db") == 0:
            remove("new.db")
            yield "an empty store is left behind"
        if code == 5 or (code == 4 and self.compared == "kernels" and b"out_of_memory" in out):
            if code == 5 and b"memory" not in errors.lower():
                yield "exit code 5 for another reason"
            if self.compared == "saved" and read_file("saved") != BEFORE:
                yield "the file was replaced"
        elif code != base:
            yield f"exit code {code}"
            return
        else:
            seen = outputs(self.compared)
            if seen != seen_base and not (self.compared == "kernels" and set(seen) <= set(seen_base)):
                yield "another result"
            if self.compared == "all" and errors != errors_base:
                yield "other messages"
        if self.store == "none" or (self.kept is not None and read_file("new.db") == self.kept
                                    and (code == 5 or self.stored_base == self.stored_before)):
            return  # not a byte is another one
        try:
            stored = self.stored()
        except (ValueError, sqlite3.Error) as error:
            yield f"the store is damaged: {error}"
            return
        if code != 5:
            if stored != self.stored_base:
                yield "the store has other rows"
        elif self.compared == "points":  # what was measured before stays
            if not set(stored or []) <= set(self.stored_base):
                yield "the store has other rows"
        elif (stored or []) not in (self.stored_before or [], self.stored_base or []):
            yield "the store has some of the rows"


class Worker:
    """A folder with the inputs, and the command that is tried in it."""

    def __init__(self, command, faults, calls):
        # In memory: each row of a store waits for the disk.
        self.folder = tempfile.mkdtemp(dir="/dev/shm" if os.path.isdir("/dev/shm") else None)
        os.chdir(self.folder)
        self.environment = make_inputs(command)
        self.faults, self.case, self.index = faults, None, None
        self.cases = [(f"{shlex.quote(command)} {line}", *rest) for line, *rest in COMMANDS]
        self.cases += [(shlex.quote(path), "none", "all", "reads") for path in calls]

    def open(self, index):
        """The case with this index, whose run without a fault is made once in a row of parts."""
        if index != self.index:
            self.close()
            self.case, self.index = Case(*self.cases[index], self.faults, self.environment), index
        return self.case

    def close(self):
        if self.case:
            self.case.close()
        self.case = self.index = None

    def remove(self):
        self.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def run(self, index, faults):
        """The number of runs with the faults (n, after) that faults(count of allocations) names, and what failed."""
        case = self.open(index)
        before, wrong = case.runs, len(case.failures)
        for n, after in faults(case.count):
            case.run(n, after)
        failures, case.failures[wrong:] = case.failures[wrong:], []
        return case.runs - before, failures


worker = None


def begin_worker(*arguments):
    global worker
    worker = Worker(*arguments)
    multiprocessing.util.Finalize(None, worker.remove, exitpriority=1)


def count_allocations(index):
    case = worker.open(index)
    return case.count, case.failures


def run_part(index, first, last):
    """Both faults of each allocation from `first` to `last`, or to the end."""
    def faults(count):
        return [(n, after) for n in range(first, (last or count) + 1, STEP) for after in (0, 1)]
    return worker.run(index, faults)


def wanted(command, calls):
    """The indices of the commands that TORTURE_ONLY leaves."""
    only = os.environ.get("TORTURE_ONLY", "")
    names = [line for line, *_ in COMMANDS] + [os.path.basename(path) for path in calls]
    return [index for index, name in enumerate(names) if name.startswith(only)], names


def run_samples(arguments, samples):
    chosen = random.Random(int(os.environ.get("HEADROOM_TEST_SEED", "19")))
    begin_worker(*arguments)
    runs, failures = 0, []
    try:
        for index in wanted(arguments[0], arguments[2])[0]:
            failures += count_allocations(index)[1]

            def faults(count):
                step = count // samples + 1
                first = chosen.randint(1, step)
                return [(n, after) for n in range(first, count + 1, step) for after in (0, 1)]
            more, wrong = worker.run(index, faults)
            runs += more
            failures += wrong
    finally:
        worker.remove()
    print(*failures, f"{runs} runs, {len(failures)} failures", sep="\n")
    return 1 if failures else 0


def run_whole(arguments):
    jobs = int(os.environ.get("TORTURE_JOBS") or len(os.sched_getaffinity(0)))
    state = os.environ.get("TORTURE_STATE")
    until = time.monotonic() + float(os.environ.get("TORTURE_SECONDS", "inf"))
    which, of = map(int, os.environ.get("TORTURE_PART", "1/1").split("/"))
    indices, names = wanted(arguments[0], arguments[2])
    if state:
        os.makedirs(state, exist_ok=True)
        state = os.path.abspath(state)
    runs = failed = through = 0

    def part_name(index, first):
        store = COMMANDS[index][1] if index < len(COMMANDS) else "none"
        text = f"{names[index]} {store}"
        readable = re.sub("[^a-z0-9]+", "-", text)[:40].strip("-")
        return f"{readable}-{hashlib.sha256(text.encode()).hexdigest()[:6]}-{first}"

    with concurrent.futures.ProcessPoolExecutor(jobs, initializer=begin_worker, initargs=arguments) as pool:
        parts, started = [], random.Random().randint(1, STEP)
        for index, (count, wrong) in zip(indices, pool.map(count_allocations, indices)):
            print(*wrong, sep="\n", end="\n" if wrong else "")
            failed += len(wrong)
            size = PART // 2 * STEP
            firsts = range(started, count + 1, size)
            parts += [(index, first, None if first + size > count else first + size - 1) for first in firsts]
        parts = parts[which - 1::of]
        waiting = {}
        todo = [part for part in parts if not (state and os.path.exists(f"{state}/{part_name(*part[:2])}"))]
        for index, first, _ in set(parts) - set(todo):
            through += 1
            kept = read_file(f"{state}/{part_name(index, first)}").decode()
            more, wrong = re.findall(r"^(\d+) runs, (\d+) failures$", kept, re.MULTILINE)[-1]
            runs, failed = runs + int(more), failed + int(wrong)
            print(*kept.splitlines()[:-1], sep="\n", end="\n" if int(wrong) else "")
        todo.reverse()
        while waiting or (todo and time.monotonic() < until):
            while todo and len(waiting) < jobs and time.monotonic() < until:
                part = todo.pop()
                waiting[pool.submit(run_part, *part)] = part
            done, _ = concurrent.futures.wait(waiting, return_when=concurrent.futures.FIRST_COMPLETED)
            for future in done:
                part = waiting.pop(future)
                more, wrong = future.result()
                runs, failed, through = runs + more, failed + len(wrong), through + 1
                print(*wrong, sep="\n", end="\n" if wrong else "", flush=True)
                if state:
                    path = f"{state}/{part_name(*part[:2])}"
                    write_file(path + ".cut", "".join(line + "\n" for line in wrong)
                               + f"{more} runs, {len(wrong)} failures\n")
                    os.replace(path + ".cut", path)
    print(f"{runs} runs, {failed} failures, {through} of {len(parts)} parts")
    return 1 if failed or through < len(parts) else 0


def main():
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(2))  # folders are removed
    command, faults, samples, *calls = [*sys.argv[1:], "6"] if len(sys.argv) == 3 else sys.argv[1:]
    arguments = os.path.realpath(command), os.path.realpath(faults), [os.path.realpath(path) for path in calls]
    if "whole" in os.environ.get("HEADROOM_TEST", "").split():
        return run_whole(arguments)
    return run_samples(arguments, int(samples))


if __name__ == "__main__":
    sys.exit(main())
