# SPDX-License-Identifier: Apache-2.0
"""What the pages on attention and decode kernels show (docs_numbers.py) of CPUs: tables of the rows that bench/ measured."""
import textwrap

from docs_kernels import three
from docs_rows import dashed, mean, median, rows, table

# ---- attention on a CPU ----

AMX = "xeon-amx/attention_cpu_vs_torch.csv"


def amx_cells(some):
    """Times as fast as PyTorch by heads, then the ranges of rates and of shares of the sum bound."""
    ratios = {(row.k_heads, row.v_heads): f"{row.ratio:.2f}" for row in some}
    rates = [row.headroom_gflops for row in some]
    return [ratios.get(heads, "–") for heads in ((some[0].q_heads, some[0].q_heads), (8, 8), (4, 16))] + [
        dashed(rates), *(dashed([100 * row[f"{whose}of_sum_bound"] for row in some]) + "%" for whose in ("", "torch_"))]


def amx_table(kernel):
    """Pairs: all keys, causal."""
    lines = []
    for dim, length in sorted({(row.head_dim, row.length) for row in rows(AMX, kernel=kernel)}):
        pair = [amx_cells([Numbers(row) for row in rows(AMX, kernel=kernel, head_dim=dim, length=length, causal=causal)])
                for causal in (0, 1)]
        lines.append([dim, length, *map(", ".join, zip(*pair))])
    return table(["head size", "length", "equal heads", "32/8/8", "32/4/16", "GFLOP/s", "of the sum bound", "PyTorch"], lines)


class Numbers(dict):
    """A row whose cells are numbers where they can be, as items and as members."""

    def __init__(self, row):
        super().__init__({name: getattr(row, name) for name in row})
        self.__dict__ = self


def amx_sum(kernel, **wanted):
    ratios = [row.ratio for row in rows(AMX, kernel=kernel, **wanted)]
    return f"{mean(ratios):.2f} over {len(ratios)} calls | {min(ratios):.2f}"


def cpu_summary():
    lines = [["Xeon with AMX", f"{form}, `{kernel}`", *amx_sum(kernel).split(" | ")] for form, kernel in
             (("bf16", "attention_flash_amx"), ("fp32", "attention_flash_avx512"), ("fp32 in AVX2", "attention_flash_avx2"))]
    lines.append(["EPYC (Zen 5)", "fp32, `attention_flash_avx512`", "2.76 over 48 calls", "2.19"])
    return table(["processor", "format, kernel", "times as fast as PyTorch, geometric mean", "least"], lines)


def heads_sentence(kernel):
    """Rates per FLOP of grouped heads over those of equal heads, geometric means."""
    def rate(dim, *heads):
        return mean(row.headroom_gflops for row in rows(AMX, kernel=kernel, head_dim=dim) if (row.k_heads, row.v_heads) == heads)

    grouped, diff = ([rate(dim, *heads) / rate(dim, equal, equal) for dim, equal in ((64, 12), (128, 16))]
                     for heads in ((8, 8), (4, 16)))
    return textwrap.fill(f"Per FLOP 32/8/8 is {grouped[0]:.2f} times as fast as equal heads at head size 64 and {grouped[1]:.2f} "
                         f"at 128; 32/4/16 {diff[0]:.2f} and {diff[1]:.2f} times.", 120)


CORES_FORWARD = "epyc-zen5/attention-forward.csv"


def cores_memory(count):
    return f"{count / 2**20:.0f} MiB" if count >= 10 * 2**20 else f"{count / 2**20:.1f} MiB"


def cores_forward_times(*names):
    """Time and workspace at 4096 queries and keys of one sequence, bf16; a name is as in the first column."""
    lines = []
    for name in names:
        heads, dim = name.split(", ")
        q, k, v = map(int, heads.split("/"))
        found = {row.series.split()[0]: row for row in rows(CORES_FORWARD, dtype="bf16", q_heads=q, k_heads=k, v_heads=v,
                                                          qk_dim=int(dim), batch=1, q_len=4096)}
        lines.append([name, *(f"{three(row.ms)} ms, {cores_memory(row.workspace_bytes)}" if row.median_ns else
                              row.status.replace("_", " ") for row in map(found.get, ("materialized", "fused", "flash")))])
    return table(["heads, head size", "materialized", "blocked", "flash"], lines)


# ---- whole models ----

STEPS, GPU_STEPS = "epyc-zen5/step_vs_peers.csv", "h200/step_vs_peers.csv"
TRAINING = "epyc-zen5/train_vs_transformers.csv"
Q8 = "q8_0"
STEP_PEERS = ("transformers eager", "transformers compiled", "llama.cpp")
GPU_PEERS = {"transformers graph": "transformers, one graph", "transformers graph with headroom": "with our attention",
             "llama.cpp": "llama.cpp"}


def step_groups(file):
    """The rows of each step, by contender."""
    found = {}
    for row in rows(file):
        tokens = row.tokens if row.batch == 1 else f"{row.batch} × {row.tokens}"
        found.setdefault((row.model, row.phase, row.dtype, tokens), {})[row.contender] = row
    return found


def step_training_table():
    """Headroom's time, and how many times as long transformers takes with fp32 weights."""
    lines = [[model, dtype, f"{three(group['headroom'].ms)} ms", *(f"{group[peer].ratio:.2f}" for peer in STEP_PEERS[:2])]
             for (model, _, dtype, _), group in step_groups(TRAINING).items()]
    return table(["model", "format", "Headroom", "eager", "compiled"], lines)


def gpu_steps_table():
    """Headroom's time, and how many times as long peers take, of whole models; a peer has a column if a step has it."""
    groups = {key: group for key, group in step_groups(GPU_STEPS).items() if " of " not in key[0]}
    peers = [peer for peer in GPU_PEERS if any(peer in group for group in groups.values())]
    lines = [[model, phase, tokens, f"{three(group['headroom'].ms)} ms",
              *(beside(group["headroom"], group.get(peer)) for peer in peers)]
             for (model, phase, _, tokens), group in groups.items()]
    return table(["model", "phase", "tokens", "Headroom", *map(GPU_PEERS.get, peers)], lines)


def beside(headroom, peer):
    """How many times as long a peer takes, or, of another day, its time."""
    if not peer:
        return "–"
    return f"{peer.ratio:.2f}" if peer.date == headroom.date else f"{three(peer.ms)} ms"


def over_best_peer(phase, tokens=1):
    """How many times as long the fastest peer takes, of steps with so many tokens or more together: the geometric mean,
    the least, and how many steps. A model of fewer layers counts as the model: one peer may have it whole, another not."""
    best = {}
    for (model, which, _, shown), group in step_groups(GPU_STEPS).items():
        if which == phase and group["headroom"].batch * group["headroom"].tokens >= tokens:
            ratios = [row.ratio for peer, row in group.items() if peer != "headroom"]
            best.setdefault((model.split(" of ")[0], shown), []).extend(ratios)
    best = [min(ratios) for ratios in best.values() if ratios]
    return f"{mean(best):.2f} in the geometric mean of {len(best)} steps, {min(best):.2f} at least"


def step_peers_table():
    """Headroom's time, and how many times as long the others take."""
    lines = [[model, phase, f"{three(group['headroom'].ms)} ms", *(f"{group[peer].ratio:.2f}" for peer in STEP_PEERS)]
             for (model, phase, dtype, _), group in step_groups(STEPS).items() if dtype == "bf16"]
    return table(["model", "phase", "Headroom", *STEP_PEERS], lines)


def step_q8_table():
    """The same of llama.cpp, with weights in q8_0."""
    groups = {key[:2]: group for key, group in step_groups(STEPS).items() if key[2] == Q8}
    lines = [[model, *(f"{three(group['headroom'].ms)} ms, {group['llama.cpp'].ratio:.2f}"
                       for group in (groups[model, "prefill"], groups[model, "decode"]))]
             for model in dict.fromkeys(model for model, _ in groups)]
    return table(["model", "prefill", "decode"], lines)


# ---- quantized caches on a CPU ----

QUANTIZED = "epyc-zen5/decode-quantized.csv"
FORMATS = {"fp8, scale per head": ("fp8", "head"), "fp8, per token": ("fp8", "token"), "int8, per head": ("int8", "head"),
           "int8, per token": ("int8", "token")}


def call_of(row):
    heads = f"{row.q_heads}/{row.k_heads}/{row.v_heads}, {row.head_dim}"
    return f"{row.batch} × {row.kv_len}, {heads}, {f'pages of {row.page_size}' if row.page_size else 'contiguous'}"


def quantized_table():
    """Medians over the rounds: the time of bf16, and that time over the one of each format, round by round."""
    found = {}
    for row in rows(QUANTIZED, status="ok"):
        found.setdefault(call_of(row), {})[row.cache_format, row.scales, row.round] = row.median_ns
    lines = []
    for name, times in found.items():
        rounds = sorted({key[2] for key in times})
        base = [times["bf16", "", each] for each in rounds]
        ratios = [median(bf16 / times[*form, each] for bf16, each in zip(base, rounds)) for form in FORMATS.values()]
        lines.append([name, f"{median(base) / 1e6:.2f}", *(f"{ratio:.2f}" for ratio in ratios)])
    return table(["call", "bf16, ms", *FORMATS], lines)


# ---- decode on a CPU ----

DECODE_CPU = "xeon-amx/decode_cpu_vs_torch.csv"


def decode_cpu_beside(row):
    """The row of the other kernel in the same rounds."""
    same = ("dtype", "layout", "batch", "tokens", "heads", "dim")
    return next(other for other in rows(DECODE_CPU) if other.kernel != row.kernel and all(other[name] == row[name] for name in same))


def rows_of_k_head(heads):
    """Query heads a K head of "32/4/16" or "16, latent"."""
    q, _, k = heads.split(",")[0].partition("/")
    return int(q) // int(k.split("/")[0] or 1)


def decode_cpu_tiles_table():
    """Calls that both AMX and AVX-512 take: AVX-512's time over that of AMX, by query heads a K head."""
    found = {}
    for row in rows(DECODE_CPU, kernel="decode_split_amx"):
        found.setdefault(rows_of_k_head(row.heads), []).append(decode_cpu_beside(row).headroom_ms / row.headroom_ms)
    counts = sorted(found)
    return table(["query heads a K head", *counts],
                 [["AVX-512's time over AMX's", *(dashed(found[n], 2) for n in counts)]])


def decode_cpu_shares(**wanted):
    """The range of shares of the reading loop, and of times as fast as PyTorch, of default kernels."""
    found = rows(DECODE_CPU, default=1, **wanted)
    shares, ratios = [100 * row.share for row in found], [row.ratio for row in found]
    return f"{min(shares):.0f}% to {max(shares):.0f}%", f"{min(ratios):.2f} to {max(ratios):.2f} times"


def one_thread_table():
    lines = []
    found = rows("epyc-zen5/attention-one-thread.csv", status="ok")
    for row in found:
        if row["mask"] == "none":
            causal = next(other for other in found if (other.kernel, other["mask"]) == (row.kernel, "causal"))
            share = f"{100 * row.ceiling_share:.0f}% of {row.gflops / row.ceiling_share:.0f}"
            lines.append([f"`{row.kernel}`", row.dtype, f"{row.gflops:.0f}", f"{causal.gflops:.0f}", share])
    return table(["kernel", "format", "GFLOP/s", "causal", "of the probed ceiling"], lines)
