/* SPDX-License-Identifier: Apache-2.0 */
/* The figures of a device; src/hardware/figures.inc has their bounds. */
#ifndef HR_HARDWARE_HARDWARE_H
#define HR_HARDWARE_HARDWARE_H

#include <headroom/experimental/hardware.h>

#define HR_ALIGNMENTS_MAX 10
#define HR_TILES_MAX 24
#define HR_ATTENTION_SHARES_MAX 10
#define HR_CEILINGS_MAX 16
#define HR_COLLECTIVE_RATES_MAX 24

#define HR_INTERVALS_MAX 192

/** Speed of GEMMs whose contiguous dimensions are multiples of `bytes` but not of the next larger class. */
typedef struct hr_alignment_class {
  int64_t bytes;       /* a power of two */
  double gemm_share;   /* of the rate of the best class, in tiles of 128 × 256: plain GEMMs */
  double bmm_share;    /* the same for batched GEMMs */
  double result_share; /* plain GEMMs whose operands are of the best class, but not the result; 0: gemm_share */
} hr_alignment_class;

/** A tile of the result that one multiprocessor (one core of a CPU) computes at a time. */
typedef struct hr_tile {
  int64_t m, n;
  double share; /* of the library's best rate that this tile reaches when every slot is busy */
} hr_tile;

/** Speed of the fused attention kernel for heads of at most `head_dim` elements (the larger of qk_dim and v_dim). */
typedef struct hr_attention_share {
  int64_t head_dim;
  double forward_share, backward_share; /* of the library's best GEMM, long sequences without a mask */
  double headroom_share;                /* forward_share of Headroom's own kernel; 0: as forward_share */
  double short_share; /* the same with tiles of up to 64 keys for up to 1024, on Hopper; 0: as headroom_share */
  double headroom_backward_share; /* backward_share of Headroom's own kernel; 0: as backward_share */
} hr_attention_share;

/** Cost of attention with one or a few queries per sequence (split-KV). "A pair" is a K or V head of one sequence. */
typedef struct hr_decode_cost {
  double launch_ns;            /* the shortest call */
  double bandwidth_share;      /* at which K and V are read; 0: as hr_hardware.bandwidth_share */
  double few_pairs_share;      /* of bandwidth_share: 16 to 63 pairs of one query head; 0: 1 */
  double few_long_pairs_share; /* the same from 16384 keys on; 0: as few_pairs_share */
  double pair_ns;              /* of a multiprocessor, for each pair */
  double element_ns;    /* of a multiprocessor, for each element of a pair's head; where thread blocks are known, of
                             each wave of these */
  double split_ns;      /* each time that the keys double beyond 128, where pairs leave all multiprocessors idle */
  double compute_share; /* of the library's best GEMM; 0: hr_attention_share.forward_share of the head size */
  double key_ns;        /* of kernels that do not split the keys: of a multiprocessor, for each key beyond 64 of 64
                             query heads of a pair; 0: the keys are split */

  /* Headroom's kernel for GPUs, whose thread blocks are known; hr_predict_decode() defines the terms. */
  double wave_ns;            /* of each wave of blocks after the first; 0: by pairs, as above */
  double busy_ns;            /* of a launch that gives every multiprocessor a block; of a smaller one in proportion */
  double combine_ns;         /* of combining splits of the keys through global memory */
  double cluster_ns;         /* of combining them within clusters of blocks; 0: there are no clusters */
  double combine_element_ns; /* of combining, for each element of O that a group of query heads has, besides */
  double read_latency_ns;    /* from the start of a copy to its data, while all multiprocessors read */
  double fill_share; /* of the time that reading l2_bytes takes at the full bandwidth: added while the cache fills */
  double reach;      /* bandwidth of one multiprocessor, over its share of the whole; 0: no limit */
} hr_decode_cost;

/** Cost of fused attention over many queries. */
typedef struct hr_prefill_cost {
  double launch_ns;  /* the shortest call; 0: this cost is not known */
  double block_ns;   /* overhead of one Q tile */
  double share;      /* of the library's best GEMM, long sequences without a mask; 0: as hr_attention_share says */
  double element_ns; /* overhead of one Q tile for each element of its head, besides block_ns; of 128 rows */

  /* Headroom's kernel for Hopper, whose work items are known; hr_predict_attention_by() defines the terms. */
  double busy_ns;    /* of a launch that gives every multiprocessor a Q tile; of a smaller one in proportion */
  double load_share; /* of the bandwidth, at which it reads and writes; 0: as hr_hardware.bandwidth_share */
} hr_prefill_cost;

/** Cost of the routed experts of a layer by the kernels of inference servers: grouped GEMMs, whose experts' rows are
 *  padded to whole tiles, and the kernels around them, which sort the tokens by expert. */
typedef struct hr_expert_cost {
  double routing_ns;   /* of choosing the experts and sorting the tokens, however few; 0: this cost is not known */
  double matrix_share; /* of the library's rate of plain GEMMs, which a grouped GEMM reaches */
  double load_share;   /* of the bandwidth, at which it reads its operands */
  double expert_ns;    /* of both grouped GEMMs together, for each expert that has rows */
  double moved_share;  /* of the bandwidth, at which tokens are copied to their experts and back */
} hr_expert_cost;

/** Cost of the kernels that compute misaligned GEMMs, which have tiles of their own, several on a multiprocessor. The
 *  clock is at its limit. */
typedef struct hr_gemm_kernel_cost {
  double launch_ns;  /* the shortest such GEMM; 0: as gemm_launch_ns */
  double busy_ns;    /* added where every multiprocessor has a tile, else the busy share of it */
  double wave_ns;    /* of the tiles that a multiprocessor computes together: pipelines fill and drain */
  double latency_ns; /* the same for each step along k, of tiles without a latency of their own */
  double tile_ns;    /* of a tile; of SIMT formats, as store, aligned_store and matrix_share */
  double element_ns; /* of a misaligned tile, for each of its elements: its epilogue */
  double step_ns;    /* of a tile, for each step along k */
  double row_ns; /* the same for each row or column of an operand that is contiguous along k, over the tile's share */
  double column_ns; /* the same of an operand that is contiguous along m or n */
  double aligned;   /* times as long for operands aligned to 16 bytes; 0: 1 */
  double load_8;    /* the same of operands aligned to 8 bytes; 0: 1 */
  double short_k; /* of misaligned ones: 1 − exp(−k / short_k) of row_ns, since short rows share cache lines; 0: all */
  double store;         /* the exposed store of a tile takes so many times as long; 0: 1 */
  double aligned_store; /* the same of a result aligned to 16 bytes; 0: as store */
  double split_ns;      /* of splitting k; 0: as hr_hardware.split_ns */
  double part_ns;       /* of each split of k */
  double fill_ns;       /* that memory takes more until a GEMM's bytes have filled the last-level cache */
  double matrix_share;  /* times the library's rate that the arithmetic of a tile reaches; 0: 1 */
} hr_gemm_kernel_cost;

/** Cost of a library's kernels for aligned GEMMs of 16 bits, which have many tiles, load them by TMA, and load each row
 *  once for a cluster. In ns at the clock of large GEMMs. */
typedef struct hr_tma_gemm_cost {
  double launch_ns;      /* the shortest such GEMM; 0: this cost is not known, hr_hardware.tiles are used */
  double busy_ns;        /* added where every multiprocessor has a tile, else the busy share of it */
  double refill_ns;      /* added once where tiles fill more than two waves */
  double step_ns;        /* of a tile, for each step along k */
  double latency_ns;     /* that a step takes at least: a load's latency over the steps that are under way */
  double row_latency_ns; /* the same for each row and column of the tile: of larger ones fewer are under way */
  double cluster_idle;   /* multiprocessors that clusters of four tiles and more leave idle */
  double matrix_share;   /* times the library's rate that the arithmetic of a tile reaches; 0: 1 */
  double row_ns;         /* of each row that a step loads: of the tile, or of k if that is not contiguous */
  double idle_share;     /* of row_ns that one multiprocessor saves where all others idle; 0 … 1 */
  double load_16, load_32, load_64; /* times as long that rows aligned to 16, 32 and 64 bytes take; 0: 1 */
  double store_bytes_per_ns;        /* at which a multiprocessor writes a tile; compute does not hide it */
  double sector_bytes_per_ns;       /* of all, where rows of the result are whole multiples of 16 bytes, not of 32 */
  double fill_ns;                   /* that memory takes more until a GEMM's bytes have filled the last-level cache */
  double split_ns, part_ns;         /* of splitting k, and of each split */
} hr_tma_gemm_cost;

/** Cost of 8 bit GEMMs whose activations are rounded by a kernel of its own, as in eager mode. */
typedef struct hr_rounding_cost {
  double launch_ns;       /* of that kernel; 0: this cost is not known */
  double bandwidth_share; /* at which the elements are read, and written rounded */
  double element_ns;      /* of a row's elements, one after the other, where multiprocessors idle */
  double matrix_share;    /* of the library's rate, which the GEMM reaches; 0: 1 */
} hr_rounding_cost;

/** Cost of a recurrent mixer's scan, or of its short convolution, by the kernels that frameworks run. A sequence takes
 *  launch + busy + max(0, token_ns · tokens − busy / 4), where busy is bytes / (bandwidth_share · bandwidth) +
 *  FLOPs / (matrix_share · library's rate) and bytes contain the states of chunks; a decode step takes update_ns +
 *  bytes / (update_share · bandwidth). */
typedef struct hr_scan_cost {
  double launch_ns;       /* of all kernels over a sequence, however short; 0: this cost is not known */
  double bandwidth_share; /* at which operands, results and final states move; 0: as hr_hardware.bandwidth_share */
  double matrix_share;    /* of the library's rate of plain GEMMs, at which FLOPs are computed; 0: they take no time */
  double token_ns;        /* of a token of a sequence: states follow one another, however many units are idle */
  double update_ns;       /* the shortest decode step; 0: the cost of one is not known */
  double update_share; /* of the bandwidth, at which it moves operands and states; 0: as hr_hardware.bandwidth_share */
} hr_scan_cost;

/** The rate of a loop over one instruction: an upper bound for kernels built on it. */
typedef struct hr_ceiling {
  hr_ceiling_kind kind;
  hr_dtype dtype;       /* of HR_CEILING_GEMM; HR_FP32 otherwise */
  char instruction[32]; /* "wgmma", "vfmadd213ps zmm"; of an exponential on a CPU also its polynomial */
  double per_s;         /* of all multiprocessors or cores */
  double core_per_s;    /* of one core alone; 0: not measured, as on a GPU */
  double clock_hz;      /* of the multiprocessors during the loop; 0: unknown */
  double power_w;       /* of the whole board during the loop, run until the power cap had settled; 0: not measured */
} hr_ceiling;

/** Time of a collective between so many devices of one node: with τ = bytes × hr_collective_bus_share() /
 *  bus_bytes_per_s it is α + τ + ramp · √(α·τ). The last term is that of small and middle messages, whose transfer is
 *  cut into pieces: √(α·τ) is what the best number of pieces costs. */
typedef struct hr_collective_rate {
  hr_collective_kind kind;
  int64_t devices;
  double latency_ns;      /* α */
  double bus_bytes_per_s; /* as nccl-tests defines bus bandwidth */
  double ramp;            /* 0: α + τ alone; 2: pieces of the best size */
  double error_band;      /* relative, of the time, as hr_hardware.error_band */
} hr_collective_rate;

/** Where nine of ten measured times lie: low … high times the predicted one. */
typedef struct hr_interval {
  hr_interval_kind kind;
  hr_dtype dtype;  /* of GEMMs of this format alone; HR_DTYPE_COUNT: of every format without rows of its own */
  double below_ns; /* of predicted times below this, and not below the row before of the same kind and dtype */
  double low, high;
} hr_interval;

struct hr_hardware {
  hr_hardware_about about;
  double error_band; /* relative, where `intervals` has no row: a time is expected within time / (1 + band) … time ·
                        (1 + band) */

  int64_t multiprocessors;                  /* SMs, compute units or cores */
  int64_t blocks_per_multiprocessor;        /* matrix tiles in flight on each */
  double clock_hz;                          /* boost clock */
  double dense_flops_per_s[HR_DTYPE_COUNT]; /* datasheet, without sparsity; 0: the device has no such units. For
                                               this machine's CPU: instruction set × cores × the clock that the
                                               system reports */
  double library_share[HR_DTYPE_COUNT];     /* best library GEMM / dense rate; 0: unknown, 0.75 is assumed. Above 1 if
                                               a probed CPU runs at a higher clock than the system reports */

  double int8_ops_per_s;        /* int8 × int8, without sparsity; 0: the device has no such units, or unknown */
  double bandwidth_bytes_per_s; /* main memory, datasheet */
  double bandwidth_share;       /* a streaming copy reaches this share of it */
  double load_share;            /* of the bandwidth: a GEMM reading its operands; 0: as bandwidth_share */
  double store_share;           /* of the bandwidth: a GEMM writing its result; 0: as bandwidth_share */
  double sector_store_share;    /* of that, where rows of the result are multiples of 16 bytes, but not of 32; 0: 1 */
  int64_t memory_bytes;
  int64_t l2_bytes;                                   /* last-level cache */
  int64_t shared_bytes;                               /* shared memory (LDS) of a multiprocessor; CPU: L2 of a core */
  double softmax_share, norm_share, activation_share; /* of the bandwidth, of these kernels; 0: as bandwidth_share */
  double store_exposed;      /* part of the time to write a result that compute does not hide; 0 … 1 */
  double boost;              /* largest rise of the clock when few multiprocessors are busy, relative to the clock of
                                   large GEMMs, which power limits; 0: none */
  double launch_ns;          /* the shortest kernel: interval between kernels in a stream */
  double gemm_launch_ns;     /* the shortest GEMM; 0: as launch_ns */
  double gemm_busy_ns;       /* added where every multiprocessor has a tile, else the busy share of it */
  double gemm_step_ns;       /* of a tile, added for each step along k, however small the tile */
  double prefill_launch_ns;  /* the shortest fused attention call of a framework; 0: as launch_ns */
  double attention_block_ns; /* overhead of one Q tile of fused attention */
  int64_t tile_k_bytes;      /* step along k; 0: none */

  size_t alignment_count;
  hr_alignment_class alignments[HR_ALIGNMENTS_MAX]; /* ascending bytes; the last is full speed */
  size_t tile_count;
  hr_tile tiles[HR_TILES_MAX];
  size_t attention_count;                                 /* 0: a share of 0.6 is assumed */
  hr_attention_share attentions[HR_ATTENTION_SHARES_MAX]; /* ascending head_dim */

  int64_t devices_per_node;        /* usual count; 0: not given */
  double interconnect_bytes_per_s; /* one direction, of one device to its node; 0: none */

  size_t ceiling_count; /* 0: not measured */
  hr_ceiling ceilings[HR_CEILINGS_MAX];

  int64_t numa_nodes;  /* of this machine's CPU: NUMA nodes of the usable cores; 0: unknown */
  char placement[192]; /* of this machine's CPU, a phrase: placement of its threads and memory; "": unknown */

  double interconnect_latency_ns; /* of a collective that has no fitted rates; 0: as launch_ns */
  double network_bytes_per_s;     /* one direction, of one device to other nodes; 0: all devices are on one node */
  double network_latency_ns;      /* of a message between two nodes */
  size_t collective_count;        /* 0: not measured; times follow from interconnect_bytes_per_s as of a ring */
  hr_collective_rate collectives[HR_COLLECTIVE_RATES_MAX]; /* by kind, then ascending devices */

  double power_limit_w; /* of this machine's GPU, as its driver enforces it; else what the maker states; 0: unknown */

  hr_decode_cost decode_framework;  /* kernels of PyTorch, vLLM, SGLang, TensorRT-LLM */
  hr_decode_cost decode_headroom;   /* Headroom's own; launch_ns 0: as decode_framework */
  hr_prefill_cost prefill_headroom; /* Headroom's own fused attention; launch_ns 0: hr_hardware.launch_ns and
                                       attention_block_ns */

  size_t interval_count;                   /* 0: not measured */
  hr_interval intervals[HR_INTERVALS_MAX]; /* by kind, then dtype, then ascending below_ns */

  double cache_bytes_per_s; /* a GEMM reading operands from the last-level cache; 0: twice main memory's rate */
  double reach;             /* of one multiprocessor that loads alone: times its share of the bandwidth; 0: no limit */
  double split_ns;          /* of a GEMM that splits k: the second kernel, or waiting for the other splits */
  int64_t misaligned_k_bytes; /* step along k of kernels for operands aligned to less than 16 bytes; 0: tile_k_bytes */
  int64_t split_k_bytes;      /* least bytes of k that a split gets; 0: 2048 */
  int64_t split_gemm_size;    /* m × n × k up to which the library does not split k; 0: it splits any */
  int64_t misaligned_split_bytes; /* split_k_bytes of operands aligned to less than 16 bytes; 0: the same */
  double burst;                   /* the clock of HR_CLOCK_BURST over the settled one, in large GEMMs; 0: 1 */
  double misaligned_store; /* misaligned batched GEMMs: the exposed store takes so many times as long; 0: as the rest of
                              a tile */
  /* Kernels for GEMMs whose operands or result are aligned to less than 16 bytes, and to less than 4. Without tiles
   * these run in `tiles`, slowed down by their alignment class. */
  hr_gemm_kernel_cost aligned_4, aligned_2;
  size_t aligned_4_tile_count, aligned_2_tile_count;
  hr_tile aligned_4_tiles[HR_TILES_MAX]; /* shares of the speed of the fastest, for its edge */
  hr_tile aligned_2_tiles[HR_TILES_MAX];
  int64_t aligned_4_blocks[HR_TILES_MAX]; /* of each tile, that a multiprocessor runs at once; 0: 1 */
  int64_t aligned_2_blocks[HR_TILES_MAX];
  double aligned_4_latency_ns[HR_TILES_MAX]; /* of each tile; 0: hr_gemm_kernel_cost.latency_ns */
  double aligned_2_latency_ns[HR_TILES_MAX];
  int64_t aligned_2_split_bytes;        /* as misaligned_split_bytes, of alignments of less than 4 bytes; 0: the same */
  hr_tma_gemm_cost tma;                 /* kernels for aligned GEMMs of 16 bits; launch_ns 0: as other formats */
  bool simt_formats[HR_DTYPE_COUNT];    /* kernels load single elements: alignment costs nothing */
  size_t simt_tile_count;               /* 0: as tiles */
  hr_tile simt_tiles[HR_TILES_MAX];     /* of the SIMT formats */
  int64_t simt_batched_tiles;           /* of them, the first so many are those of batched GEMMs; 0: all */
  int64_t simt_blocks[HR_TILES_MAX];    /* of each of them, that a multiprocessor runs at once; 0: 1 */
  double simt_latency_ns[HR_TILES_MAX]; /* of each; 0: hr_gemm_kernel_cost.latency_ns */
  hr_gemm_kernel_cost simt; /* their kernels; shares of tiles are then of the fastest; launch_ns 0: as other formats */
  double row_share; /* of load_share: B of [n, k] whose rows do not lie a power of two apart; not of batched GEMMs
                          * and SIMT formats; 0: 1 */
  double small_tile_share; /* of the rate, in batched GEMMs for which the library takes small tiles: SIMT formats, k
                            * up to 512 the longest side; 0: 1 */
  int64_t long_row_bytes;  /* rows along k that lie further apart load slower; 0: at any distance the same */

  /* Kernels of frameworks; without them latent attention is predicted as other attention, a grouped GEMM as a batched
   * one, and rounding to 8 bits is left out. */
  hr_decode_cost decode_latent;          /* latent attention in its absorbed form */
  hr_decode_cost decode_latent_headroom; /* the same by Headroom's kernels; launch_ns 0: as decode_headroom by pairs */
  hr_prefill_cost prefill_latent;        /* latent attention in its expanded form: V heads smaller than K heads */
  hr_expert_cost experts;
  hr_rounding_cost rounding;

  /* The same of recurrent mixers, by hr_recurrence. A GPU whose file has none of a recurrence takes an H200's, with a
   * wider band; a CPU takes the lower bound (hr_predict_scan()). */
  hr_scan_cost scan_mamba, scan_mamba2, scan_gated_delta, scan_lightning, scan_rg_lru, scan_convolution;
};

/** An empty device. */
static inline hr_hardware hr_hardware_default(void)
{
  return (hr_hardware){.error_band = 0};
}

#endif
