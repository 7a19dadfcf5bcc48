# SPDX-License-Identifier: Apache-2.0
"""Steps of llama.cpp for step_vs_peers.py, through the package llama_cpp, and the GGUF file that it reads, written by the
package gguf from the weights of a model of transformers. Without a tokenizer, ids are given."""
import ctypes

import gguf
import llama_cpp
import numpy
import torch

FILE_TYPES = {"bf16": gguf.GGMLQuantizationType.BF16, "fp32": gguf.GGMLQuantizationType.F32,
              "q8_0": gguf.GGMLQuantizationType.Q8_0}
ARCHITECTURES = {"llama": gguf.MODEL_ARCH.LLAMA, "mistral": gguf.MODEL_ARCH.LLAMA, "qwen2": gguf.MODEL_ARCH.QWEN2,
                 "qwen3": gguf.MODEL_ARCH.QWEN3, "gpt_neox": gguf.MODEL_ARCH.GPTNEOX, "gpt2": gguf.MODEL_ARCH.GPT2,
                 "phi": gguf.MODEL_ARCH.PHI2}
ROTATES_NEIGHBOURS = ("llama", "mistral")
SUFFIXES = (".weight", ".bias")
GPU = 1  # of ggml_backend_dev_type
SILENT = llama_cpp.llama_log_callback(lambda level, text, context: None)
llama_cpp.llama_log_set(SILENT, None)


def pairs_side_by_side(array, heads):
    """Rows of heads with the two numbers that are rotated together side by side, as the architecture llama has them."""
    return array.reshape(heads, 2, -1, *array.shape[1:]).swapaxes(1, 2).reshape(array.shape)


def as_stored(config, name, array):
    """A weight with its rows in GGUF's order."""
    heads = config.num_attention_heads
    if config.model_type in ROTATES_NEIGHBOURS and ".q_proj." in name:
        return pairs_side_by_side(array, heads)
    if config.model_type in ROTATES_NEIGHBOURS and ".k_proj." in name:
        return pairs_side_by_side(array, config.num_key_value_heads)
    if config.model_type == "gpt2" and ".h." in name and array.ndim == 2:  # [inputs, outputs]
        return array.T
    if ".query_key_value." in name:  # Q, K and V of a head after another
        return array.reshape(heads, 3, -1, *array.shape[1:]).swapaxes(0, 1).reshape(array.shape)
    return array


def head_dim_of(config):
    return getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads


def write_sizes(writer, config):
    writer.add_vocab_size(config.vocab_size)
    writer.add_tokenizer_model("no_vocab")
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_feed_forward_length(getattr(config, "intermediate_size", None) or 4 * config.hidden_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(getattr(config, "num_key_value_heads", None) or config.num_attention_heads)
    writer.add_key_length(head_dim_of(config))
    writer.add_value_length(head_dim_of(config))
    if hasattr(config, "rms_norm_eps"):
        writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    else:
        writer.add_layer_norm_eps(getattr(config, "layer_norm_eps", None) or config.layer_norm_epsilon)
    if config.model_type == "gpt_neox":
        writer.add_parallel_residual(config.use_parallel_residual)


def write_rotation(writer, model):
    """The base, the part of a head that is rotated, and by how much each frequency is lower than the base's."""
    rope = getattr(model.config, "rope_parameters", None)
    if not rope:
        return
    size = int(head_dim_of(model.config) * rope.get("partial_rotary_factor", 1.0))
    writer.add_rope_freq_base(rope["rope_theta"])
    writer.add_rope_dimension_count(size)
    if rope.get("rope_type", "default") != "default":
        plain = rope["rope_theta"] ** -(torch.arange(0, size, 2) / size)
        writer.add_tensor("rope_freqs.weight", (plain / model.model.rotary_emb.inv_freq.float().cpu()).numpy())


def as_bytes(config, name, tensor, kind):
    """bf16 goes as it is: numpy has no such type, so that it would be fp32 between."""
    if kind == gguf.GGMLQuantizationType.BF16 and tensor.dtype == torch.bfloat16:
        array = as_stored(config, name, tensor.contiguous().view(torch.int16).cpu().numpy())
        return numpy.ascontiguousarray(array).view(numpy.uint8)
    return gguf.quants.quantize(numpy.ascontiguousarray(as_stored(config, name, tensor.float().cpu().numpy())), kind)


def write(model, path, dtype):
    """Matrices in `dtype`, vectors in fp32."""
    config = model.config
    if config.model_type not in ARCHITECTURES:
        raise ValueError(f"no GGUF file is written of {config.model_type}, only of {', '.join(ARCHITECTURES)}")
    names = gguf.get_tensor_name_map(ARCHITECTURES[config.model_type], config.num_hidden_layers)
    writer = gguf.GGUFWriter(path, gguf.MODEL_ARCH_NAMES[ARCHITECTURES[config.model_type]])
    write_sizes(writer, config)
    write_rotation(writer, model)
    for name, tensor in model.state_dict().items():
        if config.tie_word_embeddings and name.startswith("lm_head"):
            continue
        kind = FILE_TYPES["fp32" if tensor.ndim == 1 else dtype]
        writer.add_tensor(names.get_name(name, SUFFIXES), as_bytes(config, name, tensor, kind), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def batch_of(ids, start):
    """Tokens [sequences, tokens] behind `start` others. The logits of each sequence's last one are asked for."""
    sequences, tokens = ids.shape
    batch = llama_cpp.llama_batch_init(ids.size, 0, 1)
    batch.n_tokens = ids.size
    for at, token in enumerate(ids.flat):
        batch.token[at], batch.pos[at], batch.n_seq_id[at] = int(token), start + at % tokens, 1
        batch.seq_id[at][0], batch.logits[at] = at // tokens, at % tokens == tokens - 1
    return batch


class Place(ctypes.Structure):
    """llama_model_tensor_buft_override"""
    _fields_ = [("pattern", ctypes.c_char_p), ("buffer_type", ctypes.c_void_p)]


def embeddings_on_gpu():
    """By itself llama.cpp looks embeddings up on the CPU, with one thread, and copies them to the GPU in fp32."""
    calls = llama_cpp.llama_cpp._lib
    for call in (calls.ggml_backend_dev_by_type, calls.ggml_backend_dev_buffer_type):
        call.restype = ctypes.c_void_p
    device = calls.ggml_backend_dev_by_type(GPU)
    if not device:
        raise RuntimeError("llama.cpp has no GPU, or was built without a backend for it")
    buffer_type = calls.ggml_backend_dev_buffer_type(ctypes.c_void_p(device))
    return (Place * 2)(Place(b"^(token|position)_embd", buffer_type), Place(None, None))


class Llama:
    """K and V in the format that llama.cpp takes by itself, fp16; FlashAttention where its build has it for the model. On
    a GPU all weights are there, and a step is one micro-batch."""
    name = "llama.cpp"

    def __init__(self, path, ids, phase, threads, on_gpu):
        options = llama_cpp.llama_model_default_params()
        options.n_gpu_layers = -1 if on_gpu else 0
        places = embeddings_on_gpu() if on_gpu else None
        options.tensor_buft_overrides = ctypes.cast(places, ctypes.c_void_p)
        self.model = llama_cpp.llama_model_load_from_file(str(path).encode(), options)
        if not self.model:
            raise RuntimeError(f"llama.cpp does not read {path}")
        how = llama_cpp.llama_context_default_params()
        how.n_seq_max = ids.shape[0]
        how.n_ctx = how.n_batch = how.n_ubatch = ids.numel()
        how.flash_attn_type = llama_cpp.LLAMA_FLASH_ATTN_TYPE_AUTO
        if threads:
            how.n_threads = how.n_threads_batch = threads
        self.context = llama_cpp.llama_init_from_model(self.model, how)
        if not self.context:
            raise RuntimeError(f"llama.cpp makes no context for {path}")
        self.outputs = llama_cpp.llama_vocab_n_tokens(llama_cpp.llama_model_get_vocab(self.model))
        tokens, self.sequences = ids.cpu().numpy(), ids.shape[0]
        self.kept = tokens.shape[1] - 1 if phase == "decode" else 0
        self.new = batch_of(tokens[:, self.kept:], self.kept)
        if self.kept:
            kept = batch_of(tokens[:, :self.kept], 0)
            self.decode(kept)
            llama_cpp.llama_batch_free(kept)

    def decode(self, batch):
        if llama_cpp.llama_decode(self.context, batch):
            raise RuntimeError("llama_decode() failed")

    def before(self):
        for sequence in range(self.sequences):
            llama_cpp.llama_memory_seq_rm(llama_cpp.llama_get_memory(self.context), sequence, self.kept, -1)

    def run(self):
        self.decode(self.new)

    def wait(self):
        llama_cpp.llama_synchronize(self.context)

    def logits(self):
        found = llama_cpp.llama_get_logits(self.context)
        return numpy.ctypeslib.as_array(found, (self.sequences, self.outputs)).copy()

    def __del__(self):
        for name, free in (("new", llama_cpp.llama_batch_free), ("context", llama_cpp.llama_free),
                           ("model", llama_cpp.llama_model_free)):
            if getattr(self, name, None):
                free(getattr(self, name))
