#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures what `headroom advise` finds in public models, with Headroom's own kernels: the rows of docs/advice-validated.md.

    scripts/measure_advice.py --headroom build/release/headroom --output advice.csv

runs `headroom advise MODEL --device cuda:0 --measure` for each model of the list and writes a row for each finding of class free or
retrain with severity medium or more, also where it has no measured gain, with the reason. The predictions are those of the device's
file (HEADROOM_PROBE=0). --seconds ends the list early; the models that are left out are named.
"""
import argparse
import csv
import datetime
import json
import os
import subprocess
import sys
import time

COLUMNS = ["model", "attention", "rule", "class", "severity", "current", "suggested", "batch", "seq", "predicted_gain",
           "measured_gain", "measured_low", "measured_high", "status", "reason"]
# Public models that have such findings on an H200, and the shapes of the co-design paper, fused and unfused.
MODELS = ["gpt2", "gpt2-medium", "gpt2-large", "gpt2-xl", "gpt-neo-125m", "gpt-neo-1.3b", "gpt-neo-2.7b", "opt-125m", "opt-350m",
          "opt-1.3b", "opt-2.7b", "phi-1_5", "phi-2", "pythia-70m", "pythia-160m", "pythia-410m", "pythia-2.8b", "bloom-560m",
          "bloom-1b1", "qwen2-0.5b", "stablelm-2-1_6b", "stablelm-3b-4e1t", "tinyllama-1.1b", "falcon-rw-1b"]
PAPER = ["gpt3-2.7b", "gpt3-2.7b-20-heads", "gpt3-2.7b-c1", "gpt3-2.7b-c2"]
RUNS = ([(model, "fused") for model in PAPER + MODELS] + [(model, "unfused") for model in PAPER])


def advise(arguments, model, attention):
    command = [arguments.headroom, "advise", model, "--attention", attention, "--only", "free,retrain", "--format", "json", "--quiet"]
    known = json.loads(subprocess.run(command + ["--device", arguments.like, "--framework", "headroom"], capture_output=True,
                                      text=True, check=True).stdout)
    wanted = {f["rule"] for f in known["findings"] if f["severity"] in ("medium", "high")}
    others = sorted({f["rule"] for f in known["findings"]} - wanted)
    command += ["--device", arguments.device, "--measure", "--budget", str(arguments.budget)]
    if others:  # of low severity: not worth the time
        command += ["--ignore", ",".join(others)]
    done = subprocess.run(command, capture_output=True, text=True, env=dict(os.environ, HEADROOM_PROBE="0"))
    if done.returncode != 0:
        sys.exit(f"{model}, {attention}: {done.stderr.strip()}")
    return json.loads(done.stdout), wanted


def rows(advice, wanted, model, attention):
    measured = {f["rule"]: f for f in advice["measurement"]["findings"]}
    for finding in advice["findings"] + advice["combined"]:
        if finding["rule"] not in measured or not (finding["rule"] in wanted or finding in advice["combined"]):
            continue
        m = measured[finding["rule"]]
        yield dict(model=model, attention=attention, rule=finding["rule"], severity=finding.get("severity", ""),
                   current=finding.get("current", ""), suggested=finding["suggested"], batch=advice["measurement"]["batch"],
                   seq=advice["measurement"]["sequence"], predicted_gain=m["predicted_gain"], measured_gain=m["measured_gain"],
                   measured_low=m["measured_gain_low"], measured_high=m["measured_gain_high"], status=m["status"],
                   reason=m["reason"], **{"class": finding.get("class", "")})


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--headroom", required=True, help="the command")
    parser.add_argument("--device", default="cuda:0", help="that measures; default cuda:0")
    parser.add_argument("--like", default="h200", help="whose findings are measured; default h200")
    parser.add_argument("--output", default="advice.csv")
    parser.add_argument("--budget", type=float, default=4, help="seconds for a model; default 4")
    parser.add_argument("--seconds", type=float, default=1e9)
    parser.add_argument("--about", default="", help="device, driver and libraries, for the file's first line")
    parser.add_argument("--models", help="these alone, separated by commas")
    arguments = parser.parse_args()
    begin, left_out = time.monotonic(), []
    with open(arguments.output, "w", newline="") as out:
        out.write(f"# {arguments.about}, {datetime.date.today()}; headroom advise --measure, scripts/measure_advice.py\n")
        writer = csv.DictWriter(out, COLUMNS, lineterminator="\n")
        writer.writeheader()
        for model, attention in RUNS:
            if arguments.models and model not in arguments.models.split(","):
                continue
            if time.monotonic() - begin > arguments.seconds:
                left_out.append(f"{model} ({attention})")
                continue
            for row in rows(*advise(arguments, model, attention), model, attention):
                writer.writerow(row)
                print(f"{time.monotonic() - begin:5.0f} s", model, attention, row["rule"], row["predicted_gain"], row["measured_gain"],
                      row["reason"], file=sys.stderr, flush=True)
            out.flush()
    if left_out:
        sys.exit("measure_advice.py: no time for " + ", ".join(left_out))


if __name__ == "__main__":
    main()
