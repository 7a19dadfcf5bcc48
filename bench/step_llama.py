# SPDX-License-Identifier: Apache-2.0
"""Steps of llama.cpp for step_vs_peers.py, through the package llama_cpp, and the GGUF file that it reads, written by the
package gguf from the weights of a model of transformers. Without a tokenizer, ids are given."""
import ctypes

import gguf
import llama_cpp
import numpy

FILE_TYPES = {"bf16": gguf.GGMLQuantizationType.BF16, "fp32": gguf.GGMLQuantizationType.F32,
              "q8_0": gguf.GGMLQuantizationType.Q8_0}
ARCHITECTURES = {"llama": gguf.MODEL_ARCH.LLAMA, "qwen2": gguf.MODEL_ARCH.QWEN2, "gpt_neox": gguf.MODEL_ARCH.GPTNEOX}
SUFFIXES = (".weight", ".bias")
SILENT = llama_cpp.llama_log_callback(lambda level, text, context: None)
llama_cpp.llama_log_set(SILENT, None)


def pairs_side_by_side(array, heads):
    """Rows of heads with the two numbers that are rotated together side by side, as the architecture llama has them."""
    return array.reshape(heads, 2, -1, *array.shape[1:]).swapaxes(1, 2).reshape(array.shape)


def as_stored(config, name, array):
    """A weight with its rows in GGUF's order."""
    heads = config.num_attention_heads
    if config.model_type == "llama" and ".q_proj." in name:
        return pairs_side_by_side(array, heads)
    if config.model_type == "llama" and ".k_proj." in name:
        return pairs_side_by_side(array, config.num_key_value_heads)
    if ".query_key_value." in name:  # Q, K and V of a head after another
        return array.reshape(heads, 3, -1, *array.shape[1:]).swapaxes(0, 1).reshape(array.shape)
    return array


def write_sizes(writer, config):
    writer.add_vocab_size(config.vocab_size)
    writer.add_tokenizer_model("no_vocab")
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    rope = config.rope_parameters
    head_dim = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    writer.add_rope_freq_base(rope["rope_theta"])
    writer.add_rope_dimension_count(int(head_dim * rope.get("partial_rotary_factor", 1.0)))
    if config.model_type == "gpt_neox":
        writer.add_parallel_residual(config.use_parallel_residual)
        writer.add_layer_norm_eps(config.layer_norm_eps)
    else:
        writer.add_head_count_kv(config.num_key_value_heads)
        writer.add_layer_norm_rms_eps(config.rms_norm_eps)


def write(model, path, dtype):
    """Matrices in `dtype`, vectors in fp32."""
    config = model.config
    names = gguf.get_tensor_name_map(ARCHITECTURES[config.model_type], config.num_hidden_layers)
    writer = gguf.GGUFWriter(path, gguf.MODEL_ARCH_NAMES[ARCHITECTURES[config.model_type]])
    write_sizes(writer, config)
    for name, tensor in model.state_dict().items():
        if config.tie_word_embeddings and name.startswith("lm_head"):
            continue
        array = as_stored(config, name, tensor.float().cpu().numpy())
        kind = FILE_TYPES["fp32" if array.ndim == 1 else dtype]
        writer.add_tensor(names.get_name(name, SUFFIXES), gguf.quants.quantize(array, kind), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


class Llama:
    """One sequence; K and V in the format that llama.cpp takes by itself, fp16."""
    name = "llama.cpp"

    def __init__(self, path, ids, phase, threads, on_gpu):
        options = llama_cpp.llama_model_default_params()
        options.n_gpu_layers = -1 if on_gpu else 0
        self.model = llama_cpp.llama_model_load_from_file(str(path).encode(), options)
        if not self.model:
            raise RuntimeError(f"llama.cpp does not read {path}")
        how = llama_cpp.llama_context_default_params()
        how.n_ctx = how.n_batch = how.n_ubatch = ids.shape[1]
        if threads:
            how.n_threads = how.n_threads_batch = threads
        self.context = llama_cpp.llama_init_from_model(self.model, how)
        self.outputs = llama_cpp.llama_vocab_n_tokens(llama_cpp.llama_model_get_vocab(self.model))
        tokens = ids[0].cpu().numpy().astype(numpy.int32)
        self.kept, self.new = numpy.split(tokens, [tokens.size - 1 if phase == "decode" else 0])
        if self.kept.size:
            self.decode(self.kept)

    def decode(self, tokens):
        batch = llama_cpp.llama_batch_get_one(tokens.ctypes.data_as(ctypes.POINTER(llama_cpp.llama_token)), tokens.size)
        if llama_cpp.llama_decode(self.context, batch):
            raise RuntimeError("llama_decode() failed")

    def before(self):
        llama_cpp.llama_memory_seq_rm(llama_cpp.llama_get_memory(self.context), 0, self.kept.size, -1)

    def run(self):
        self.decode(self.new)

    def wait(self):
        llama_cpp.llama_synchronize(self.context)

    def logits(self):
        return numpy.ctypeslib.as_array(llama_cpp.llama_get_logits(self.context), (1, self.outputs)).copy()

    def __del__(self):
        llama_cpp.llama_free(self.context)
        llama_cpp.llama_model_free(self.model)
