# SPDX-License-Identifier: Apache-2.0
"""All-reduces of PyTorch on several GPUs of this host, each call one of 50 of a captured graph: NCCL through
torch.distributed, and the kernels of torch's symmetric memory (multicast is not used).
  torchrun --nproc-per-node 2 bench/all_reduce_torch.py
Prints rows as bench/all_reduce does: gpus,bytes,nccl_us,one_shot_us,two_shot_us."""
import os
import statistics
import sys

import torch
import torch.distributed as dist
import torch.distributed._symmetric_memory as symmetric

CALLS, ROUNDS = 50, 25


def graph_of(call):
    call()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(CALLS):
            call()
    return graph


def time_us(graph):
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    dist.barrier()
    graph.replay()
    start.record()
    graph.replay()
    end.record()
    torch.cuda.synchronize()
    return start.elapsed_time(end) * 1e3 / CALLS


def calls_of(count, group):
    x = torch.randn(count, device="cuda").bfloat16()
    calls = {"nccl": lambda: dist.all_reduce(x)}
    shared = symmetric.empty(count, dtype=torch.bfloat16, device="cuda").copy_(x)
    symmetric.rendezvous(shared, group)
    name = group.group_name
    if count * 2 <= 1 << 20:
        calls["one_shot"] = lambda: torch.ops.symm_mem.one_shot_all_reduce(shared, "sum", name)
    if count * 2 <= 64 << 20:
        calls["two_shot"] = lambda: torch.ops.symm_mem.two_shot_all_reduce_(shared, "sum", name)
    return calls


def main():
    dist.init_process_group("nccl", device_id=torch.device("cuda", int(os.environ["LOCAL_RANK"])))
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    group = dist.group.WORLD
    if dist.get_rank() == 0:
        print("gpus,bytes,nccl_us,one_shot_us,two_shot_us", flush=True)
    size = 512
    while size <= 256 << 20:
        graphs = {}
        for name, call in calls_of(size // 2, group).items():
            try:
                graphs[name] = graph_of(call)
            except RuntimeError as error:
                if dist.get_rank() == 0:
                    print(f"# {name} of {size}: {str(error).splitlines()[0]}", flush=True)
        times = {name: [] for name in graphs}
        for _ in range(ROUNDS):
            for name, graph in graphs.items():
                times[name].append(time_us(graph))
        if dist.get_rank() == 0:
            cells = [f"{statistics.median(times[n]):.2f}" if n in times else "" for n in ("nccl", "one_shot", "two_shot")]
            print(f"{dist.get_world_size()},{size},{','.join(cells)}", flush=True)
        size *= 2 if size < 1 << 20 else 4
    sys.stdout.flush()
    os._exit(0)  # graphs that have captured NCCL keep the group from ending


if __name__ == "__main__":
    main()
