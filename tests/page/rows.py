# SPDX-License-Identifier: Apache-2.0
"""Rows for reports, as JSON Lines: texts that attack what they are written into, and many points."""
import json

# In every text of a row that a user of a store may set.
HOSTILE = [
    "</script><script>window.attacked = 1</script>",
    "<img src=x onerror='window.attacked = 1'>",
    '"><svg onload="window.attacked = 1">',
    "<!--<script>",
    "&lt;b&gt; &amp; ]]> ' \"",
    "=cmd|' /C calc'!A0",
    "\u001b]0;title\u0007\u001b[31m",
    "\u2028\u2029\u202e",
    "'; DROP TABLE results; --",
    "`touch attacked` $(touch attacked)",
]


def row(index, sweep, series, axes, time_ns, product="NVIDIA H200", **more):
    return {
        "id": f"{index + 1:032x}", "date": "2026-01-31T10:00:00.000Z", "sweep": sweep, "series": series, "axes": axes,
        "operation": "gemm", "dtype": "bf16", "batch": 1, "m": 4096, "n": 1024, "k": 1024, "transpose_a": False,
        "transpose_b": True, "device": "cuda:0", "product": product, "status": "ok", "samples": 20,
        "median_ns": time_ns, "median_low_ns": 0.99 * time_ns, "median_high_ns": 1.01 * time_ns,
        "flops_per_s": 2 * 4096 * 1024 * 1024 / time_ns * 1e9, "driver": "580.10", "libraries": "cuBLASLt 13.1.0",
        "host": "node7", "program": "0.2.0", **more,
    }


def hostile():
    rows = []
    for i, text in enumerate(HOSTILE):
        for h in (512, 1024, 2048):
            rows.append(row(len(rows), text[:60], text, f"h={h}", 1e4 * h, product=text, host=text, driver=text,
                            libraries=text, program=text[:31]))
        rows.append(row(len(rows), "", "", "", 1e5, product=text, kernel_asked=text[:60]))
        rows.append(row(len(rows), "fig24", text, f"h={64 * (i + 1)}", 1e5 + i, status="noisy", reason=text))
        rows.append(row(len(rows), "named", "one", f"case={text}", 1e5 + i))
    return rows


def two_devices(points=12):
    rows = []
    for product, factor in (("NVIDIA H100", 1.5), ("NVIDIA H200", 1.0)):
        for series in ("a = 8", "a = 16"):
            for i in range(points):
                rows.append(row(len(rows), "own", series, f"h={128 * (i + 1)}", factor * 1e3 * (i * 7 % 13 + 20), product))
    return rows


def many(count):
    return [row(i, f"sweep{i % 20}", f"line {i // 20 % 5}", f"h={64 * (i // 100 + 1)}", 1e4 + i * 31 % 977)
            for i in range(count)]


def one_sweep(count, lines):
    return [row(i, "large", f"line {i % lines}", f"h={64 * (i // lines + 1)}", 1e4 + i * 31 % 977) for i in range(count)]


def write(path, rows):
    with open(path, "w", encoding="utf-8") as out:
        for each in rows:
            out.write(json.dumps(each) + "\n")
