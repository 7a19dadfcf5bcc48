# SPDX-License-Identifier: Apache-2.0
"""Table of docs/buying.md: GEMM rates beside whole steps, as predicted for GPUs of the catalogue (docs_numbers.py)."""
from docs_command import document
from docs_rows import table
from docs_serving import served_rows

GPUS = ("v100-pcie-32gb", "v100-sxm2-32gb", "a100-pcie-40gb", "a100-sxm4-80gb", "h100-pcie", "h100-sxm", "h200", "b200", "gh200", "l4",
        "l40s", "rtx-4090", "mi210", "mi250x", "mi300x")
STEPS = {"training step": "--phase train", "prefill": "--phase prefill", "decode, batch 1": "--phase decode -b 1",
         "decode, batch 64": "--phase decode -b 64"}


def _offers(options, devices=GPUS):
    return document(f"advise llama-3-8b -q -d {','.join(devices)} {options}")


def gemm_rule_table():
    correlations = [f"{_offers(options)['rank_correlation']:.2f}" for options in STEPS.values()]
    return table(["", *STEPS], [["rank correlation with the GEMM set", *correlations]])


def decode_over_gemms():
    """An H200's decode over an H100's, whose GEMMs are as fast."""
    h100, h200 = _offers(STEPS["decode, batch 64"], ("h100-sxm", "h200"))["devices"]
    return h200["work_per_s"] / h100["work_per_s"] / (h200["gemm_flops_per_s"] / h100["gemm_flops_per_s"])


def h200_over_h100(lengths):
    """Published rates of TensorRT-LLM 0.17, Llama 3.1 8B on one GPU in fp8."""
    h200, h100 = (served_rows("trtllm-0.17", model="llama-3.1-8b", device=device, t=1, lengths=lengths)[0]["rate"][0]
                  for device in ("h200", "h100-sxm"))
    return h200 / h100
