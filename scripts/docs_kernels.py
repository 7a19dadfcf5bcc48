# SPDX-License-Identifier: Apache-2.0
"""What the pages on attention and decode kernels show (docs_numbers.py): tables of the rows that bench/ measured on GPUs.
docs_kernels_cpu.py has those of CPUs."""
import textwrap

from docs_rows import cell, dashed, mean, rows, table

INTERLEAVED = "h200/attention_gpu_vs_torch.csv"
SUSTAINED = "h200/attention_gpu_sustained.csv"
SUSTAINED_GRID = "h200/attention_gpu_sustained_grid.csv"
DECODE = "h200/decode_gpu_vs_torch.csv"
LATENT = "h200/decode_latent_gpu_vs_torch.csv"
SELECTED = "h200/sigma-sel-v.csv"
ENERGY = "h100/attention_gpu_energy.csv"
CAP_W = 700  # of that card
FP8 = "h200/attention_gpu_fp8.csv"
BANDS, SHORT_OF_8, SHORT = "h100/attention_gpu_bands.csv", "h100/attention_gpu_short.csv", "h200/attention_gpu_short.csv"
PEERS = {"cudnn": "cuDNN", "fa3": "FlashAttention-3"}
NONE = "–"


def whole(value):
    return NONE if value in ("", None) else f"{value:.0f}"


def microseconds(value):
    """Three digits, or two below 10 µs."""
    return NONE if value in ("", None) else f"{value:.0f}" if value >= 100 else f"{value:.1f}"


# ---- attention on Hopper ----


def grid(short=False):
    """The calls of the interleaved grid, or those of its short tier."""
    named = rows(INTERLEAVED, tier=["train128c", "train192c", "short128c", "short256c", "bert", "vit"])
    return rows(SHORT) if short else [row for row in rows(INTERLEAVED) if row not in named]


def interleaved_ratios(found, peer=None):
    """A peer's time over Headroom's in each call that it has; None: of the best peer."""
    ratios = [[row[f"{name}_ratio"] for name in PEERS if row[f"{name}_ratio"] and peer in (None, name)] for row in found]
    return [min(map(float, some)) for some in ratios if some]


def calls():
    names = []
    for row in rows(SUSTAINED):
        if row.tier not in names:
            names.append(row.tier)
    return names


def contender(call, name):
    found = [row for row in rows(SUSTAINED, tier=call) if row.contender == name]
    return found[0] if found else None


def sustained_ratios(peer=None):
    """Time per call, each at the clock that its power leaves."""
    ratios = []
    for call in calls():
        some = [contender(call, name).ratio for name in PEERS if peer in (None, name) and contender(call, name)]
        if some:
            ratios.append(min(some))
    return ratios


def sustained_grid_ratios(peer=None):
    """The same of the calls of the interleaved grid."""
    best = {}
    for row in rows(SUSTAINED_GRID):
        if row.contender in ([peer] if peer else PEERS):
            call = tuple(row[name] for name in ("batch", "length", "q_heads", "k_heads", "v_heads", "qk_dim", "causal"))
            best[call] = min(row.ratio, best.get(call, row.ratio))
    return list(best.values())


def hopper_summary():
    def words(ratios, count):
        return f"{mean(ratios):.3f}, {min(ratios):.3f}" + (f" ({len(ratios)} calls)" if len(ratios) < count else "")

    lines = []
    for peer, name in [*PEERS.items(), (None, "the best peer of each call")]:
        lines.append([name, words(interleaved_ratios(grid(), peer), len(grid())), words(sustained_grid_ratios(peer), len(grid())),
                      words(sustained_ratios(peer), len(calls())), words(interleaved_ratios(grid(True), peer), len(grid(True)))])
    head = ["a peer's time over Headroom's", f"interleaved, {len(grid())} calls: geometric mean, least", "sustained, the same calls",
            f"sustained, {len(calls())} named calls", f"interleaved, {len(grid(True))} short calls"]
    return table(head, lines)


def heads_of(row):
    return f"{row.q_heads}{f' ({row.k_heads})' if row.k_heads != row.q_heads else ''} of {row.qk_dim}"


def hopper_sustained():
    lines = []
    for call in calls():
        some = [contender(call, name) for name in ("headroom", "cudnn", "fa3")]
        own = some[0]
        shape = f"{own.batch} × {own.length}, {heads_of(own)}{', causal' if own.causal else ''}"
        lines.append([f"`{call}`", shape, *(f"{row.tflops:.0f} at {row.clock_mhz}" if row else NONE for row in some),
                      *(f"{row.ratio:.3f}" if row else NONE for row in some[1:]),
                      ", ".join(f"{row.tflop_j:.2f}" if row else NONE for row in some)])
    return table(["call", "", "Headroom", "cuDNN", "FA3", "cuDNN's time / ours", "FA3's", "J/TFLOP: ours, cuDNN, FA3"], lines)


def hopper_interleaved():
    """Pairs: not causal, causal."""
    lines = []
    for dim, length in sorted({(row.qk_dim, row.length) for row in rows(INTERLEAVED, tier="mha")}):
        pair = sorted(rows(INTERLEAVED, tier="mha", qk_dim=dim, length=length), key=lambda row: row.causal)
        lines.append([dim, length, *(", ".join(whole(getattr(row, f"{name}_tflops")) for row in pair) for name in ("headroom", *PEERS)),
                      ", ".join(f"{ratio:.2f}" for ratio in interleaved_ratios(pair))])
    return table(["head size", "length", "Headroom", "cuDNN", "FA3", "best peer's time / Headroom's"], lines)


def energy_row(call, operands, variant):
    return rows(ENERGY, tier=call, operands=operands, variant=variant)[0]


def energy_saved(call, operands, variant):
    """At the cap energy is time, which is known better than the counter's power; below it the counter's joules."""
    base, row = energy_row(call, "uniform", "base"), energy_row(call, operands, variant)
    return 1 - row.us / base.us if row.power_w > 0.97 * CAP_W else 1 - row.call_j / (base.us * 1e-6 * CAP_W)


def signed(value, digits=0):
    return f"{value:.{digits}f}%".replace("-", "−")


# ---- attention of fp8 operands ----


def fp8_table():
    lines = []
    for row in rows(FP8):
        peers = [x for name in ("bf16", "fa3", "cudnn") for x in (
            [whole(number_of(row, f"{name}_tflops")), NONE if number_of(row, f"{name}_ratio") == "" else f"{number_of(row, f'{name}_ratio'):.2f}"])]
        lines.append([f"`{row.tier}`", f"{row.batch} × {row.length}, {heads_of(row)}{', causal' if row.causal else ''}",
                      whole(row.headroom_tflops), *peers])
    return table(["call", "", "fp8", "bf16", "its time / fp8's", "FA3 fp8", "its time / ours", "cuDNN fp8", "its time / ours"], lines)


def fp8_errors():
    """Least and largest error of each contender."""
    def span(name, causal):
        errors = [100 * number_of(row, f"{name}_error") for row in rows(FP8, causal=causal) if number_of(row, f"{name}_error") != ""]
        return dashed(errors, 2) + "%"

    lines = [[name, *(span(key, causal) for key in ("headroom", "bf16", "fa3", "cudnn"))]
             for causal, name in ((0, "not causal"), (1, "causal"))]
    return table(["calls", "fp8", "bf16", "FA3 fp8", "cuDNN fp8"], lines)


def number_of(row, name):
    text = row.get(name, "")
    return "" if text in ("", None) else float(text)


def fp8_ratios(peer, **wanted):
    return [number_of(row, f"{peer}_ratio") for row in rows(FP8, **wanted) if number_of(row, f"{peer}_ratio") != ""]


# ---- decode ----


def decode_call(text, file=DECODE):
    """The row of "8 × 4096, 32/8/8, 128": batch × keys, heads, head size."""
    sizes, heads, dim = text.split(", ")
    (batch, keys), (q, k, v) = map(int, sizes.split(" × ")), map(int, heads.split("/"))
    found = [row for row in rows(file, batch=batch, q_heads=q, k_heads=k, v_heads=v, qk_dim=int(dim)) if int(row["keys"]) == keys]
    if not found:
        raise ValueError(f"no row of {text}")
    return found[0]  # a call that is in two groups was measured twice


def decode_times(*names):
    """Times, and what pages of 16 tokens cost."""
    lines = []
    for name in names:
        row = decode_call(name)
        times = (row.bound_us, row.contiguous_us, row.paged_us, row.cudnn_us, row.flash_us)
        lines.append([name, *map(microseconds, times), f"{100 * (row.paged_ratio - 1):.1f}%"])
    return table(["batch × keys, heads q/k/v, head size", "bound", "contiguous", "pages of 16", "cuDNN", "FlashAttention-2", "pages cost"],
                 lines)


def peers_over_ours(named=None, paged=False):
    """The best peer's time over Headroom's in calls by name, or all: least and largest."""
    found = [decode_call(name) for name in named] if named else rows(DECODE)
    ratios = [min(float(r) for r in (row.cudnn_ratio, row.flash_ratio) if r) / (row.paged_ratio if paged else 1) for row in found]
    return f"{min(ratios):.2f} to {max(ratios):.2f}"


def peers_ahead():
    """The calls in which a peer is faster, and its time over Headroom's."""
    found = [f"{name} at {row.batch} × {row['keys']}, {row.q_heads}/{row.k_heads}/{row.v_heads}, {row.qk_dim} ({float(row[column]):.3f})"
             for row in rows(DECODE) for name, column in (("cuDNN", "cudnn_ratio"), ("FlashAttention-2", "flash_ratio"))
             if row[column] and float(row[column]) < 1]
    return f"faster in {len(found)} of {len(rows(DECODE))} calls: {' and '.join(found)}"


def within_bound():
    """Calls that take at most their bytes' time at 0.98 of the rate at which the GPU reads, and 3 µs."""
    found = rows(DECODE)
    return f"{sum(row.contiguous_us <= row.bound_us / 0.98 + 3 for row in found)} of {len(found)}"


def near_bytes(most=1.05):
    found = rows(DECODE)
    return f"{sum(row.contiguous_us <= most * row.bound_us for row in found)} of {len(found)}"


def latent_times():
    lines = []
    for row in sorted(rows(LATENT), key=lambda row: (row.q_heads, -row.batch * int(row["keys"]), -row.batch)):
        flops = 2 * row.batch * int(row["keys"]) * row.q_heads * (row.qk_dim + row.v_dim)
        read = row.batch * (int(row["keys"]) * row.qk_dim + row.q_heads * (row.qk_dim + row.v_dim)) * 2
        by_memory = read / flops * 800e12 / 4.449e12 > 1
        rate = f"{read / row.contiguous_us / 1e6:.2f} TB/s" if by_memory else f"{flops / row.contiguous_us / 1e6:.0f} TFLOP/s"
        lines.append([f"{row.batch} × {row['keys']}, {row.q_heads}", f"{microseconds(row.bound_us)} {'memory' if by_memory else 'GEMM'}",
                      microseconds(row.contiguous_us), microseconds(row.paged_us),
                      f"{100 * row.bound_us / row.contiguous_us:.0f}%", rate, microseconds(row.flashinfer_us), microseconds(row.bmm_us)])
    return table(["batch × keys, heads", "bound", "contiguous", "pages of 64", "share of the bound", "", "FlashInfer", "bmm"], lines)


def selected_v(*sizes):
    """Decode with V of selected keys, by batch and keys: a column for each share, k = 0 is V of all."""
    head = ["batch × keys", "V of all keys", "k = 100", "1/16 of the keys", "1/8", "1/4"]
    lines = []
    for batch, keys in sizes:
        found = {row.top_k or 0: row.ms * 1e3 for row in rows(SELECTED, status="ok", batch=batch, kv_len=keys)}
        lines.append([f"{batch} × {keys}", *(microseconds(found.get(k)) for k in (0, 100, keys // 16, keys // 8, keys // 4))])
    return table(head, lines)


def ratio_range(found, name):
    """Least and largest time of a contender over Headroom's."""
    values = [row[f"{name}_ratio"] for row in found if row[f"{name}_ratio"]]
    return f"{cell(min(map(float, values)))} to {cell(max(map(float, values)))}"


# ---- attention on other GPUs ----

AMPERE = "h200/attention_sm80_gpu_vs_torch.csv"
FORWARD = "h200/attention-forward.csv"


def ampere_table():
    """attention_flash_sm80 over FlashAttention-2: not causal, causal."""
    lengths = (512, 2048, 8192, 16384)
    lines = []
    for dim in (64, 128, 256):
        cells = [[row.flash_ratio for row in sorted(rows(AMPERE, tier="mha", qk_dim=dim, length=length), key=lambda row: row.causal)]
                 for length in lengths]
        lines.append([dim, *(", ".join(f"{ratio:.2f}" for ratio in some) for some in cells)])
    return table(["head size", *lengths], lines)


def ampere_ratios():
    return [row.flash_ratio for row in rows(AMPERE, dtype="bf16") if row.flash_ratio]


def memory(count):
    return "nothing" if not count else f"{count / 2**30:.2g} GiB" if count >= 2**30 else f"{count / 2**20:.0f} MiB"


def forward_times(*names):
    """Time and workspace of kernels with scores in memory and of the flash kernel, bf16; a name is as in the first column."""
    lines = []
    for name in names:
        heads, dim, tokens = name.split(", ")
        batch, length = map(int, tokens.split(" × ")) if " × " in tokens else (1, int(tokens))
        q, k, v = map(int, heads.split("/"))
        found = {row.implementation: row for row in rows(FORWARD, dtype="bf16", q_heads=q, k_heads=k, v_heads=v, qk_dim=int(dim),
                                                       batch=batch, q_len=length)}
        cells = []
        for implementation in (2, 3, 4):
            row = found[implementation]
            cells.append(f"{three(row.ms)} ms, {memory(row.workspace_bytes)}" if row.median_ns else row.status.replace("_", " "))
        lines.append([name, *cells])
    return table(["bf16: heads, head size, tokens", "materialized", "blocked", "flash"], lines)


def three(value):
    """Three digits, zeros at the end among them."""
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}" if value >= 1 else f"{value:.3f}"


# ---- flash against scores in memory ----


def forward_ratios(dtype, *implementations, dims=(64, 128, 256)):
    """Times of these implementations (2: materialized, 3: blocked) over that of the flash kernel, of all calls of the sweep."""
    found = {}
    for row in rows(FORWARD, dtype=dtype, status=("ok", "noisy"), implementation=(*implementations, 4), qk_dim=dims):
        call = (row.q_heads, row.k_heads, row.v_heads, row.qk_dim, row.batch, row.q_len)
        found.setdefault(call, {})[row.implementation] = row.ms
    return [by[i] / by[4] for by in found.values() for i in implementations if i in by and 4 in by]


# ---- quantized caches on a GPU ----

QUANTIZED_GPU = "h200/decode-quantized.csv"
CACHES = ("unquantized", "fp8", "int8")


def quantized_gpu_us():
    """Call -> µs with the cache in 16 bits, in fp8 with a scale per head, in int8 with one per token and head."""
    found = {}
    for row in rows(QUANTIZED_GPU, status=("ok", "noisy")):
        name = f"{row.batch} × {row.kv_len}, {row.q_heads}/{row.k_heads}/{row.v_heads}, {row.qk_dim}"
        found.setdefault(name, {})[row.cache_format] = row.median_ns / 1e3
    return {name: [times[cache] for cache in CACHES] for name, times in sorted(found.items(), key=lambda item: item[1]["unquantized"])}


def quantized_gpu_table():
    return table(["batch × keys, heads q/k/v, head size", "bf16", "fp8, scale per head", "int8, scale per token and head"],
                 [[name, *map(three, times)] for name, times in quantized_gpu_us().items()])


def quantized_gpu_ratios(shortest=0):
    """Times of quantized caches over that of bf16, of calls that take this many µs or more."""
    return [time / times[0] for times in quantized_gpu_us().values() for time in times[1:] if times[0] >= shortest]


def quantized_gpu_rates(*caches):
    found = rows(QUANTIZED_GPU, cache_format=caches, median_ns=lambda ns: ns >= 20e3)
    return f"{min(row.bytes_per_s for row in found) / 1e12:.1f} to {max(row.bytes_per_s for row in found) / 1e12:.1f}"


def quantized_gpu_sentence():
    long = quantized_gpu_ratios(20)
    text = (f"Half the bytes take {min(long):.2f} to {max(long):.2f} of the time but in the first row: {quantized_gpu_rates('fp8', 'int8')} TB/s "
            f"instead of {quantized_gpu_rates('unquantized')}.")
    return "\n".join(textwrap.wrap(text, 120, break_on_hyphens=False))


