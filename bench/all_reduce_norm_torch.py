# SPDX-License-Identifier: Apache-2.0
"""headroom.torch.all_reduce_rmsnorm beside PyTorch on several GPUs of this host: the sum of a tensor over the ranks,
plus a residual, and its RMS norm. PyTorch's sums are NCCL's and those of symmetric memory in one shot, from memory that is
symmetric already; residual and norm behind them are one kernel of torch.compile. Each call is one of 50 of a captured
graph; the ways take turns, and a row has the medians of their rounds and of the ratios within a round.
  torchrun --nproc-per-node 2 bench/all_reduce_norm_torch.py [COLUMNS]
HEADROOM_LIBRARY_FOLDER names the folder of a build's libraries. Prints gpus,rows,columns,bytes,headroom_us,nccl_us,
one_shot_us,headroom/nccl,headroom/one_shot."""
import os
import pathlib
import statistics
import sys

import torch
import torch.distributed as dist
import torch.distributed._symmetric_memory as symmetric
import torch.nn.functional as F

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "python"))
import headroom.torch as ht  # noqa: E402
from all_reduce_torch import ROUNDS, graph_of, time_us  # noqa: E402

EPS = 1e-5
WAYS = ("headroom", "nccl", "one_shot")


@torch.compile(dynamic=False)
def add_norm(x, residual, weight):
    total = x + residual
    return F.rms_norm(total, weight.shape, weight, EPS), total


def calls_of(rows, columns, group):
    x, residual = (torch.empty(rows, columns, dtype=torch.bfloat16, device="cuda") for _ in range(2))
    x.normal_(generator=torch.Generator("cuda").manual_seed(dist.get_rank()))
    residual.normal_(generator=torch.Generator("cuda").manual_seed(9))
    weight = torch.ones(columns, dtype=torch.bfloat16, device="cuda")
    shared = symmetric.empty(rows, columns, dtype=torch.bfloat16, device="cuda").copy_(x)
    symmetric.rendezvous(shared, group)
    summed = x.clone()

    def nccl():
        dist.all_reduce(summed)
        return add_norm(summed, residual, weight)

    def one_shot():
        return add_norm(torch.ops.symm_mem.one_shot_all_reduce(shared, "sum", group.group_name), residual, weight)
    return {"headroom": lambda: ht.all_reduce_rmsnorm(x, residual, weight, eps=EPS), "nccl": nccl,
            "one_shot": one_shot}


def compare(calls):
    """The first calls, before the sum in place has grown."""
    found = {name: call()[0].float() for name, call in calls.items()}
    for name in WAYS[1:]:
        difference = float((found[name] - found["headroom"]).abs().max())
        if not difference < 0.1:
            raise SystemExit(f"{name} differs by {difference}")


def main():
    columns = int(sys.argv[1]) if len(sys.argv) > 1 else 4096
    torch._dynamo.config.recompile_limit = 64  # one for each number of rows
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl", device_id=torch.device("cuda", int(os.environ["LOCAL_RANK"])))
    group = dist.group.WORLD
    if dist.get_rank() == 0:
        print("gpus,rows,columns,bytes,headroom_us,nccl_us,one_shot_us,headroom/nccl,headroom/one_shot", flush=True)
    rows = 1
    while rows * columns * 2 <= 1 << 20:
        calls = calls_of(rows, columns, group)
        compare(calls)
        graphs = {name: graph_of(call) for name, call in calls.items()}
        times = {name: [] for name in WAYS}
        for _ in range(ROUNDS):
            for name in WAYS:
                times[name].append(time_us(graphs[name]))
        if dist.get_rank() == 0:
            cells = [f"{statistics.median(times[name]):.2f}" for name in WAYS]
            ratios = [f"{statistics.median(a / b for a, b in zip(times['headroom'], times[name])):.3f}"
                      for name in WAYS[1:]]
            sizes = [str(each) for each in (dist.get_world_size(), rows, columns, rows * columns * 2)]
            print(",".join(sizes + cells + ratios), flush=True)
        rows *= 2
    sys.stdout.flush()
    os._exit(0)  # graphs that have captured NCCL keep the group from ending


if __name__ == "__main__":
    main()
