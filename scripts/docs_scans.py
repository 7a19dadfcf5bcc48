# SPDX-License-Identifier: Apache-2.0
"""Scans in docs/notes/prediction.md (docs_numbers.py): their errors, each row by a fit to the others (fit_scans.py)."""
import functools
import json
from unittest import mock

import fit_scans
from docs_command import rows_of
from docs_rows import RESULTS, table

_NAMES = {"selective": "Mamba-1", "ssd": "Mamba-2", "delta": "gated delta nets", "lightning": "lightning attention",
         "rg_lru": "RG-LRU", "convolution": "convolution"}
_NO_STATES = {kind: 0 for kind in fit_scans.CHUNK_STATE_BYTES}


def _hardware_of(device):
    return json.loads((fit_scans.ROOT / f"data/hardware/{device}.json").read_text(encoding="utf-8"))


@functools.lru_cache(maxsize=None)
def _errors_of(device, kind, phase, states=True, chain=True):
    """Left-out errors, without the states of chunks or the chain."""
    kept = fit_scans.CHUNK_STATE_BYTES if states else _NO_STATES
    chained = fit_scans.CHAINED if chain else ()
    with mock.patch.object(fit_scans, "CHUNK_STATE_BYTES", kept), mock.patch.object(fit_scans, "CHAINED", chained):
        return fit_scans.left_out(fit_scans.groups_of(device)[kind, phase], _hardware_of(device))


def _percent(errors):
    return f"{100 * fit_scans.mean_of(errors):.1f}, {100 * max(errors):.1f}%"


def _validated(device):
    return rows_of(f"validate --from {RESULTS}/{fit_scans.FILES[device]}/scans.csv --device {device}")


def scan_cost(device, name):
    return _hardware_of(device)[f"scan_{name}"]


def scan_errors_table(device):
    lines = []
    for (kind, phase), members in fit_scans.groups_of(device).items():
        if len(members) < fit_scans.LEAST_ROWS:
            continue
        cells = [_percent(_errors_of(device, kind, phase))]
        chunked = phase == "prefill" and kind in fit_scans.CHUNK_STATE_BYTES
        cells.append(_percent(_errors_of(device, kind, phase, states=False)) if chunked else "")
        chained = phase == "prefill" and kind in fit_scans.CHAINED
        cells.append(_percent(_errors_of(device, kind, phase, chain=False)) if chained else "")
        cells.append(_percent(_errors_of(device, kind, phase, False, False)) if chunked else "")
        lines.append([_NAMES[kind], phase, str(len(members)), *cells])
    forms = ["left out", "without states of chunks", "without the chain", "without both"]
    return table(["scan", "phase", "rows", *forms], lines)


def scan_times(device, **sizes):
    """Measured over predicted times of the rows with these sizes, ascending."""
    found = _validated(device)
    wanted = {name: str(value) for name, value in sizes.items()}
    return sorted(1 / float(row["ratio"]) for row in found if wanted.items() <= row.items())


def scan_errors_below(device, limit_ns):
    """The mean error of the shorter rows."""
    found = _validated(device)
    ratios = [float(row["ratio"]) for row in found if float(row["predicted_ns"]) < limit_ns]
    return fit_scans.mean_of([max(ratio, 1 / ratio) - 1 for ratio in ratios])
