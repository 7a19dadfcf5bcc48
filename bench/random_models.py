# SPDX-License-Identifier: Apache-2.0
"""Small random configurations of every decoder family of transformers, for parameters_vs_transformers.py.

A family is one row of FAMILIES: its model_type, a base (which names the common sizes have), and the fields of its own.
Both are functions of Draw. Every switch that can change the parameters is drawn at random."""
import random


class Draw:
    """The sizes of one random model, and choices for what a family has of its own."""

    def __init__(self, rng):
        self.rng = rng
        self.heads = rng.choice([2, 4, 6, 8])
        self.kv = rng.choice([k for k in (1, 2, 4, 8) if self.heads % k == 0])
        self.head = rng.choice([8, 16, 24])
        self.other_head = rng.choice([self.head, 32])
        self.hidden = self.heads * self.head
        self.layers = rng.randint(2, 8)
        self.vocabulary = rng.randint(70, 999)
        self.positions = rng.choice([64, 128])
        self.width = rng.choice([self.hidden * 4, self.hidden * 3 + 8])
        self.small = rng.choice([16, 24, 40])
        self.experts = rng.choice([4, 8])
        self.chosen = rng.choice([1, 2, 3])
        self.state = rng.choice([8, 16])
        self.groups = rng.choice([1, 2])

    def coin(self):
        return self.rng.random() < 0.5

    def pick(self, *values):
        return self.rng.choice(values)

    def few(self):
        """How many layers are of another kind at the start or the end: fewer than all."""
        return self.rng.randint(0, self.layers - 1)

    def kinds(self, *names):
        """The kind of each layer; each kind is there at least once when there are layers enough."""
        row = [self.rng.choice(names) for _ in range(self.layers)]
        row[:len(names)] = names[:self.layers]
        self.rng.shuffle(row)
        return row

    def some(self):
        """Indices of some of the layers."""
        return sorted(self.rng.sample(range(self.layers), self.rng.randint(1, self.layers)))


def llama(d):
    return dict(hidden_size=d.hidden, num_hidden_layers=d.layers, num_attention_heads=d.heads,
                num_key_value_heads=d.kv, intermediate_size=d.width, vocab_size=d.vocabulary,
                max_position_embeddings=d.positions, tie_word_embeddings=d.coin(), pad_token_id=0, bos_token_id=1,
                eos_token_id=2)


def headed(d):
    return dict(llama(d), head_dim=d.other_head)


def gpt(d):
    return dict(n_embd=d.hidden, n_layer=d.layers, n_head=d.heads, vocab_size=d.vocabulary, n_positions=d.positions,
                n_inner=d.pick(None, d.width), tie_word_embeddings=d.coin(), bos_token_id=1, eos_token_id=2)


def neox(d):
    fields = llama(d)
    del fields["num_key_value_heads"]
    return fields


def latent(d):
    """Multi-head latent attention."""
    return dict(llama(d), num_key_value_heads=d.heads, q_lora_rank=d.small, kv_lora_rank=d.small + 8,
                qk_nope_head_dim=d.head, qk_rope_head_dim=8, v_head_dim=d.other_head)


def experts(base, **names):
    """base and a mixture of experts in every layer; names: how the family calls experts, chosen and width."""
    def fields(d):
        row = dict(base(d))
        row[names["experts"]] = d.experts
        row[names["chosen"]] = d.chosen
        if "width" in names:
            row[names["width"]] = d.small
        return row
    return fields


def deepseek(base):
    """DeepSeek's names: routed and shared experts, dense first layers."""
    def fields(d):
        return dict(base(d), n_routed_experts=d.experts, num_experts_per_tok=d.pick(1, 2), n_group=2, topk_group=1,
                    moe_intermediate_size=d.small, n_shared_experts=d.pick(1, 2), first_k_dense_replace=d.few())
    return fields


def mamba1(d):
    return dict(hidden_size=d.hidden, num_hidden_layers=d.layers, vocab_size=d.vocabulary, state_size=d.state,
                conv_kernel=d.pick(3, 4), expand=d.pick(1, 2), use_bias=d.coin(), use_conv_bias=d.coin(),
                time_step_rank=d.pick("auto", 4), tie_word_embeddings=d.coin(), pad_token_id=0, bos_token_id=1,
                eos_token_id=2)


def mamba2(d):
    """Mamba-2 inside a hybrid, in the names of Bamba, Granite and Falcon-H1."""
    heads = d.groups * d.pick(2, 4)
    return dict(mamba_n_heads=heads, mamba_d_head=2 * d.hidden // heads, mamba_n_groups=d.groups, mamba_expand=2,
                mamba_d_state=d.state, mamba_d_conv=d.pick(3, 4), mamba_conv_bias=d.coin(), mamba_proj_bias=d.coin())


def delta(d):
    """Gated delta net, in the names of Qwen3-Next."""
    keys = d.pick(1, 2)
    return dict(linear_conv_kernel_dim=d.pick(3, 4), linear_key_head_dim=d.head, linear_value_head_dim=d.other_head,
                linear_num_key_heads=keys, linear_num_value_heads=keys * d.pick(1, 2))


def linear_layers(d):
    return dict(layer_types=d.kinds("linear_attention", "full_attention"))


def kimi_layers(d):
    return dict(linear_layers(d), linear_num_heads=d.pick(2, 4), linear_head_dim=d.head,
                linear_conv_kernel_dim=d.pick(3, 4))


def kimi_lists(d):
    """The same in Moonshot's own fields, which count layers from 1."""
    kinds = d.kinds("linear_attention", "full_attention")
    numbers = {kind: [index + 1 for index, other in enumerate(kinds) if other == kind] for kind in set(kinds)}
    return dict(linear_attn_config=dict(
        num_heads=d.pick(2, 4), head_dim=d.head, short_conv_kernel_size=d.pick(3, 4),
        kda_layers=numbers.get("linear_attention", []), full_attn_layers=numbers.get("full_attention", [])))


def sliding(d):
    return dict(layer_types=d.kinds("sliding_attention", "full_attention"), sliding_window=16)


def neo_types(d):
    return [[["global", "local"], d.layers // 2]] if d.layers % 2 == 0 else [[["global"], d.layers]]


QWEN_MOE = experts(llama, experts="num_experts", chosen="num_experts_per_tok", width="moe_intermediate_size")
QWEN_MOE_HEADED = experts(headed, experts="num_experts", chosen="num_experts_per_tok", width="moe_intermediate_size")
OLMO_MOE = experts(llama, experts="num_experts", chosen="num_experts_per_tok")
LOCAL_MOE = experts(llama, experts="num_local_experts", chosen="num_experts_per_tok")
LOCAL_MOE_HEADED = experts(headed, experts="num_local_experts", chosen="num_experts_per_tok")

FAMILIES = {
    # GPT-2 and what followed it
    "gpt2": (gpt, lambda d: {}),
    "gpt_bigcode": (gpt, lambda d: dict(multi_query=d.coin())),
    "gpt_neo": (llama, lambda d: dict(num_layers=d.layers, num_heads=d.heads, attention_types=neo_types(d),
                                      intermediate_size=d.pick(None, d.width), num_hidden_layers=None,
                                      num_attention_heads=None, num_key_value_heads=None)),
    "gpt_neox": (neox, lambda d: dict(use_parallel_residual=d.coin(), attention_bias=d.coin())),
    "gptj": (gpt, lambda d: dict(rotary_dim=8)),
    "codegen": (gpt, lambda d: dict(rotary_dim=8, n_head=4, n_embd=4 * d.head)),
    "opt": (neox, lambda d: dict(ffn_dim=d.width, enable_bias=d.coin(), do_layer_norm_before=d.coin(),
                                 word_embed_proj_dim=d.pick(d.hidden, d.hidden // 2),
                                 layer_norm_elementwise_affine=d.coin())),
    "bloom": (None, lambda d: dict(hidden_size=d.hidden, n_layer=d.layers, n_head=d.heads, vocab_size=d.vocabulary)),
    "falcon": (None, lambda d: dict(hidden_size=d.hidden, num_hidden_layers=d.layers, num_attention_heads=d.heads,
                                    vocab_size=d.vocabulary, bias=d.coin(), alibi=d.coin(), multi_query=d.coin(),
                                    parallel_attn=d.coin(), new_decoder_architecture=d.coin(), num_kv_heads=d.kv)),
    "mpt": (None, lambda d: dict(d_model=d.hidden, n_heads=d.heads, n_layers=d.layers, vocab_size=d.vocabulary,
                                 max_seq_len=d.positions, tie_word_embeddings=d.coin())),
    "xglm": (None, lambda d: dict(d_model=d.hidden, num_layers=d.layers, attention_heads=d.heads, ffn_dim=d.width,
                                  vocab_size=d.vocabulary, max_position_embeddings=d.positions)),
    "biogpt": (neox, lambda d: {}),
    "persimmon": (neox, lambda d: dict(qk_layernorm=d.coin())),
    # Llama's shape
    "llama": (headed, lambda d: dict(attention_bias=d.coin(), mlp_bias=d.coin())),
    "mistral": (headed, lambda d: {}),
    "ministral": (headed, sliding),
    "ministral3": (headed, lambda d: {}),
    "qwen2": (llama, lambda d: {}),
    "qwen3": (headed, lambda d: dict(attention_bias=d.coin())),
    "gemma": (headed, lambda d: dict(attention_bias=d.coin())),
    "gemma2": (headed, lambda d: dict(sliding(d), attention_bias=d.coin())),
    "gemma3_text": (headed, lambda d: dict(sliding(d), attention_bias=d.coin())),
    "vaultgemma": (headed, lambda d: dict(sliding(d), attention_bias=d.coin())),
    "phi": (llama, lambda d: dict(qk_layernorm=d.coin(), partial_rotary_factor=0.5)),
    "phi3": (llama, lambda d: {}),
    "stablelm": (llama, lambda d: dict(use_qkv_bias=d.coin(), qk_layernorm=d.coin(), use_parallel_residual=d.coin())),
    "starcoder2": (llama, lambda d: dict(use_bias=d.coin())),
    "olmo": (llama, lambda d: dict(attention_bias=d.coin())),
    "olmo2": (llama, lambda d: dict(attention_bias=d.coin())),
    "olmo3": (llama, lambda d: dict(sliding(d), attention_bias=d.coin())),
    "cohere": (llama, lambda d: dict(attention_bias=d.coin(), use_qk_norm=d.coin())),
    "cohere2": (llama, lambda d: dict(sliding(d), attention_bias=d.coin())),
    "glm": (headed, lambda d: dict(attention_bias=d.coin(), partial_rotary_factor=0.5)),
    "glm4": (headed, lambda d: dict(attention_bias=d.coin(), partial_rotary_factor=0.5)),
    "granite": (llama, lambda d: dict(attention_bias=d.coin(), mlp_bias=d.coin())),
    "smollm3": (llama, lambda d: dict(attention_bias=d.coin(), mlp_bias=d.coin(), no_rope_layer_interval=d.pick(2, 4))),
    "ernie4_5": (headed, lambda d: dict(use_bias=d.coin())),
    "exaone4": (headed, sliding),
    "seed_oss": (headed, lambda d: dict(attention_bias=d.coin(), attention_out_bias=d.coin(), mlp_bias=d.coin())),
    "nemotron": (headed, lambda d: dict(attention_bias=d.coin(), mlp_bias=d.coin())),
    "arcee": (headed, lambda d: dict(attention_bias=d.coin(), mlp_bias=d.coin())),
    "apertus": (llama, lambda d: dict(attention_bias=d.coin(), hidden_act=d.pick("xielu", "relu2"))),
    "helium": (headed, lambda d: dict(attention_bias=d.coin(), mlp_bias=d.coin())),
    "hunyuan_v1_dense": (headed, lambda d: dict(attention_bias=d.coin())),
    "internlm3": (headed, lambda d: dict.fromkeys(["qkv_bias", "bias"], d.coin())),
    "diffllama": (headed, lambda d: dict(attention_bias=d.coin(), num_attention_heads=2 * d.kv,
                                         hidden_size=2 * d.kv * d.head)),
    "bitnet": (llama, lambda d: dict(attention_bias=d.coin())),
    "hyperclovax": (headed, lambda d: dict(attention_bias=d.coin(), mlp_bias=d.coin(), use_post_norm=d.coin())),
    "jais2": (headed, lambda d: dict(attention_bias=d.coin(), mlp_bias=d.coin())),
    "iquestcoder": (headed, lambda d: {}),
    "cwm": (headed, lambda d: dict(sliding(d))),
    "nanochat": (llama, lambda d: dict(attention_bias=d.coin())),
    "granite_swa": (llama, lambda d: dict(sliding(d), attention_bias=d.coin())),
    "modernbert-decoder": (neox, lambda d: dict(norm_bias=d.coin(), attention_bias=d.coin(), mlp_bias=d.coin(),
                                                decoder_bias=d.coin(), sep_token_id=3, cls_token_id=4)),
    # mixtures of experts
    "mixtral": (LOCAL_MOE_HEADED, lambda d: {}),
    "qwen2_moe": (QWEN_MOE, lambda d: dict(shared_expert_intermediate_size=d.small + 8, qkv_bias=d.coin(),
                                           decoder_sparse_step=d.pick(1, 2), mlp_only_layers=d.pick([], [0]))),
    "qwen3_moe": (QWEN_MOE_HEADED, lambda d: dict(attention_bias=d.coin(), decoder_sparse_step=d.pick(1, 2),
                                                  mlp_only_layers=d.pick([], [0]))),
    "olmoe": (OLMO_MOE, lambda d: dict(attention_bias=d.coin())),
    "flex_olmo": (OLMO_MOE, lambda d: dict(attention_bias=d.coin())),
    "phimoe": (LOCAL_MOE, lambda d: dict(attention_bias=d.coin(), lm_head_bias=d.coin())),
    "gpt_oss": (LOCAL_MOE_HEADED, lambda d: dict(sliding(d), attention_bias=d.coin())),
    "granitemoe": (LOCAL_MOE, lambda d: dict(attention_bias=d.coin())),
    "granitemoeshared": (LOCAL_MOE, lambda d: dict(attention_bias=d.coin(),
                                                   shared_intermediate_size=d.pick(0, d.small))),
    "minimax_m2": (LOCAL_MOE_HEADED, lambda d: {}),
    "minimax_m3_vl_text": (LOCAL_MOE_HEADED, lambda d: dict(
        dense_intermediate_size=d.width, shared_intermediate_size=d.small, index_n_heads=d.kv,
        index_head_dim=d.pick(16, 32), index_block_size=4, index_topk_blocks=2,
        moe_layer_freq=[d.pick(0, 1) for _ in range(d.layers)],
        layer_types=[d.pick("full_attention", "minimax_m3_sparse") for _ in range(d.layers)])),
    "llama4_text": (LOCAL_MOE_HEADED, lambda d: dict(
        intermediate_size_mlp=d.small, interleave_moe_layer_step=d.pick(1, 2), attention_bias=d.coin(),
        use_qk_norm=d.coin(), attention_chunk_size=16)),
    "ernie4_5_moe": (experts(llama, experts="moe_num_experts", chosen="moe_k", width="moe_intermediate_size"),
                     lambda d: dict(moe_num_shared_experts=d.pick(0, 2), moe_layer_start_index=d.few(),
                                    moe_layer_end_index=d.pick(-1, d.layers - 1), moe_layer_interval=d.pick(1, 2),
                                    use_bias=d.coin())),
    "glm4_moe": (deepseek(headed), lambda d: dict(use_qk_norm=d.coin(), attention_bias=d.coin())),
    "dots1": (deepseek(headed), lambda d: dict(attention_bias=d.coin())),
    "solar_open": (deepseek(headed), lambda d: dict(attention_bias=d.coin())),
    "hunyuan_v1_moe": (experts(headed, experts="num_experts", chosen="moe_topk"),
                       lambda d: dict(attention_bias=d.coin())),
    "dbrx": (None, lambda d: dict(
        d_model=d.hidden, n_heads=d.heads, n_layers=d.layers, vocab_size=d.vocabulary, max_seq_len=d.positions,
        attn_config=dict(kv_n_heads=d.kv, clip_qkv=8, rope_theta=500000),
        ffn_config=dict(ffn_hidden_size=d.small, moe_num_experts=d.experts, moe_top_k=d.chosen))),
    "jetmoe": (LOCAL_MOE, lambda d: dict(kv_channels=d.other_head, num_key_value_heads=d.kv, num_attention_heads=None,
                                         num_experts_per_tok=2)),
    "afmoe": (QWEN_MOE_HEADED, lambda d: dict(sliding(d), num_dense_layers=d.few(), num_shared_experts=d.pick(0, 1, 2),
                                              attention_bias=d.coin())),
    "exaone_moe": (QWEN_MOE_HEADED, lambda d: dict(sliding(d), first_k_dense_replace=d.few(), n_group=1, topk_group=1,
                                                   num_shared_experts=d.pick(1, 2))),
    "flint": (QWEN_MOE_HEADED, lambda d: dict(attention_bias=d.coin())),
    "mimo_v2_flash": (experts(headed, experts="n_routed_experts", chosen="num_experts_per_tok",
                              width="moe_intermediate_size"),
                      lambda d: dict(v_head_dim=16, attention_bias=d.coin(), n_group=1, topk_group=1)),
    # multi-head latent attention
    "deepseek_v2": (deepseek(latent), lambda d: dict(q_lora_rank=d.pick(None, d.small), attention_bias=d.coin())),
    "deepseek_v3": (deepseek(latent), lambda d: dict(q_lora_rank=d.pick(None, d.small), attention_bias=d.coin())),
    "glm4_moe_lite": (deepseek(latent), lambda d: dict(q_lora_rank=d.pick(None, d.small), attention_bias=d.coin())),
    "minicpm3": (latent, lambda d: dict(attention_bias=d.coin(), mlp_bias=d.coin())),
    "youtu": (latent, lambda d: dict(q_lora_rank=d.pick(None, d.small), attention_bias=d.coin())),
    "deepseek_v32": (deepseek(latent), lambda d: dict(index_n_heads=d.pick(2, 4), index_head_dim=d.pick(16, 32),
                                                      index_topk=8, attention_bias=d.coin())),
    "glm_moe_dsa": (deepseek(latent), lambda d: dict(index_n_heads=d.pick(2, 4), index_head_dim=d.pick(16, 32),
                                                     index_topk=8, attention_bias=d.coin(),
                                                     index_topk_freq=d.pick(1, 2, 3),
                                                     index_skip_topk_offset=d.pick(1, 2, 3))),
    "deepseek_v4": (None, lambda d: dict(
        hidden_size=d.hidden, num_hidden_layers=d.layers, num_attention_heads=d.heads, num_key_value_heads=1,
        head_dim=d.pick(16, 32), vocab_size=d.vocabulary, q_lora_rank=d.small, o_groups=d.pick(1, d.heads),
        o_lora_rank=d.pick(8, 12), index_n_heads=d.pick(2, 4), index_head_dim=d.pick(16, 32), index_topk=8,
        sliding_window=16, n_routed_experts=d.experts, num_experts_per_tok=d.chosen, moe_intermediate_size=d.small,
        hc_mult=d.pick(1, 2, 4), mlp_bias=d.coin(), tie_word_embeddings=d.coin(),
        **d.pick({}, dict(compress_ratios=[d.pick(0, 4, 128) for _ in range(d.layers + 1)])))),
    "longcat_flash": (latent, lambda d: dict(num_layers=d.layers, num_hidden_layers=None, ffn_hidden_size=d.width,
                                             expert_ffn_hidden_size=d.small, n_routed_experts=d.experts,
                                             zero_expert_num=d.pick(0, 2), moe_topk=d.chosen, attention_bias=d.coin())),
    "kimi_linear": (latent, lambda d: dict(
        q_lora_rank=d.pick(None, d.small), num_experts=d.experts, num_experts_per_token=d.pick(1, 2),
        num_expert_group=d.pick(1, 2), topk_group=1, moe_intermediate_size=d.small, num_shared_experts=d.pick(1, 2),
        first_k_dense_replace=d.few(), tie_word_embeddings=False, **d.pick(kimi_layers, kimi_lists)(d))),
    # state spaces, linear attention, convolutions and their hybrids
    "mamba": (mamba1, lambda d: {}),
    "falcon_mamba": (mamba1, lambda d: {}),
    "mamba2": (mamba1, lambda d: dict(num_heads=2 * d.groups, head_dim=d.hidden // d.groups, n_groups=d.groups,
                                      expand=2)),
    "rwkv": (None, lambda d: dict(hidden_size=d.hidden, num_hidden_layers=d.layers, vocab_size=d.vocabulary,
                                  attention_hidden_size=d.pick(None, d.hidden), intermediate_size=d.pick(None, d.width),
                                  tie_word_embeddings=d.coin())),
    "bamba": (llama, lambda d: dict(mamba2(d), attn_layer_indices=d.some(), attention_bias=d.coin(),
                                    mlp_bias=d.coin())),
    "falcon_h1": (headed, lambda d: dict(mamba2(d), mamba_d_ssm=2 * d.hidden, mamba_rms_norm=d.coin(),
                                         mlp_bias=d.coin(), projectors_bias=d.coin(), attention_bias=d.coin())),
    "granitemoehybrid": (LOCAL_MOE, lambda d: dict(
        mamba2(d), layer_types=d.kinds("mamba", "attention"), num_local_experts=d.pick(0, d.experts),
        shared_intermediate_size=d.small, attention_bias=d.coin())),
    "nemotron_h": (headed, lambda d: dict(
        hybrid_override_pattern="".join(d.kinds("M", "*", "-", "E")), mamba_num_heads=2 * d.groups,
        mamba_head_dim=d.head, ssm_state_size=d.state, n_groups=d.groups, conv_kernel=4, expand=2, use_bias=d.coin(),
        mlp_bias=d.coin(), use_conv_bias=d.coin(), attention_bias=d.coin(), n_routed_experts=d.experts,
        num_experts_per_tok=d.pick(1, 2), moe_intermediate_size=d.small,
        moe_shared_expert_intermediate_size=d.small + 8, n_group=1, topk_group=1,
        moe_latent_size=d.pick(None, d.small + 16))),
    "jamba": (llama, lambda d: dict(
        num_experts=d.experts, num_experts_per_tok=d.pick(1, 2), attn_layer_period=d.pick(2, 3),
        attn_layer_offset=d.pick(0, 1), expert_layer_period=d.pick(1, 2), expert_layer_offset=0, mamba_d_state=d.state,
        mamba_d_conv=4, mamba_expand=2, mamba_dt_rank=d.pick("auto", 4), mamba_conv_bias=d.coin(),
        mamba_proj_bias=d.coin())),
    "lfm2": (llama, lambda d: dict(layer_types=d.kinds("conv", "full_attention"), conv_L_cache=3, conv_bias=d.coin(),
                                   block_auto_adjust_ff_dim=d.coin(), block_ffn_dim_multiplier=d.pick(1.0, 1.3),
                                   block_multiple_of=d.pick(8, 256))),
    "lfm2_moe": (QWEN_MOE, lambda d: dict(layer_types=d.kinds("conv", "full_attention"), conv_L_cache=3,
                                          conv_bias=d.coin(), num_dense_layers=d.few())),
    "qwen3_next": (QWEN_MOE_HEADED, lambda d: dict(
        delta(d), **linear_layers(d), shared_expert_intermediate_size=d.small + 8, decoder_sparse_step=d.pick(1, 2),
        attention_bias=d.coin(), mlp_only_layers=d.pick([], [0]))),
    "qwen3_5_text": (headed, lambda d: dict(delta(d), **linear_layers(d), attention_bias=d.coin())),
    "qwen3_5_moe_text": (QWEN_MOE_HEADED, lambda d: dict(delta(d), **linear_layers(d), attention_bias=d.coin(),
                                                         shared_expert_intermediate_size=d.small + 8)),
    "olmo_hybrid": (llama, lambda d: dict(delta(d), **linear_layers(d))),
    "minimax": (LOCAL_MOE_HEADED, linear_layers),
    "recurrent_gemma": (llama, lambda d: dict(
        block_types=["recurrent", "recurrent", "attention"], lru_width=d.pick(None, d.hidden), head_dim=d.head,
        conv1d_width=d.pick(3, 4), attention_bias=d.coin())),
    "zamba2": (llama, lambda d: dict(
        layers_block_type=d.kinds("mamba", "hybrid"), mamba_d_state=d.state, mamba_ngroups=d.groups, mamba_expand=2,
        n_mamba_heads=2 * d.groups, num_mem_blocks=1, use_shared_attention_adapter=d.coin(), adapter_rank=8,
        num_key_value_heads=d.heads, add_bias_linear=d.coin(), use_mem_rope=d.coin())),
    # models with parts that no other has
    "gemma3n_text": (headed, lambda d: dict(
        layer_types=["sliding_attention", "full_attention"] * 3, num_hidden_layers=6, intermediate_size=[d.width] * 6,
        num_kv_shared_layers=d.pick(0, 2), vocab_size_per_layer_input=64, hidden_size_per_layer_input=8,
        laurel_rank=8, activation_sparsity_pattern=[0.0] * 6)),
    "gemma4_text": (headed, lambda d: dict(
        layer_types=["sliding_attention", "full_attention"] * 3, num_hidden_layers=6,
        num_kv_shared_layers=d.pick(0, 2), vocab_size_per_layer_input=64, hidden_size_per_layer_input=d.pick(0, 8),
        global_head_dim=32)),
}


def random_config(family, rng):
    """A small model of the family with every optional switch set at random."""
    d = Draw(rng)
    base, own = FAMILIES[family]
    fields = dict(base(d) if base else {})
    fields.update(own(d))
    for name, value in list(fields.items()):
        if value is None and name in ("num_hidden_layers", "num_attention_heads", "num_key_value_heads"):
            del fields[name]  # the family has another name for it
    return dict(fields, model_type=family)
