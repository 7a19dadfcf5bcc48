# SPDX-License-Identifier: Apache-2.0
"""Headroom as a kernel of the Hugging Face Hub: what `headroom.torch` has, of a copy of the package under a name of its
own. transformers finds flash_attn_func and flash_attn_varlen_func by attn_implementation="ORG/headroom"."""
from .torch import (attention, attention_varlen, decode, flash_attn_func, flash_attn_varlen_func,
                    flash_attn_with_kvcache)

__all__ = ["attention", "attention_varlen", "decode", "flash_attn_func", "flash_attn_varlen_func",
           "flash_attn_with_kvcache"]
