/* SPDX-License-Identifier: Apache-2.0 */
/* Costs of kernels and rows of lists whose members are all numbers of a device's file. A list has a member a row, with
 * presence and bounds as in figures.inc: struct and table of figures are made from it. */
#ifndef HR_HARDWARE_COSTS_H
#define HR_HARDWARE_COSTS_H

#include <stdint.h>

#define HR_COST_MEMBER(object, member, presence, bounds) double member;
#define HR_ROW_MEMBER(list, count, type, member, presence, bounds) type member;

/** Cost of attention with one or a few queries per sequence (split-KV). "A pair" is a K or V head of one sequence. From
 *  wave_ns on: Headroom's kernel for GPUs, whose thread blocks are known; hr_predict_decode() defines the terms. */
#define HR_DECODE_COSTS(X, object)                                                                                     \
  X(object, launch_ns, GIVEN, TIME)           /* the shortest call */                                                  \
  X(object, bandwidth_share, OPTIONAL, SHARE) /* at which K and V are read; 0: as hr_hardware.bandwidth_share */       \
  X(object, one_head_share, OPTIONAL, SHARE)  /* of that: pairs of one query head, which have other kernels; 0: 1 */   \
  X(object, pair_ns, OPTIONAL, TIME)          /* of a multiprocessor, for each pair */                                 \
  X(object, element_ns, OPTIONAL, TIME) /* of a multiprocessor, for each element of a pair's head, or of each wave */  \
  X(object, window_head_ns, OPTIONAL,                                                                                  \
    TIME)                             /* for each query head where there is a window, by kernels whose heads    \
                                               share no loads of K and V there; 0: pairs, as without one */      \
  X(object, split_ns, OPTIONAL, TIME) /* each time that keys double beyond 128, where pairs leave others idle */       \
  X(object, compute_share, OPTIONAL, SHARE_OF_RATE) /* of the best GEMM; 0: hr_attention_share.forward_share */        \
  X(object, key_ns, OPTIONAL, TIME)  /* for each key beyond 64 of 64 query heads of a pair; 0: the keys are split */   \
  X(object, wave_ns, OPTIONAL, TIME) /* of each wave of blocks after the first; 0: by pairs, as above */               \
  X(object, busy_ns, OPTIONAL, TIME) /* launch: added where every multiprocessor has a block, else in proportion */    \
  X(object, combine_ns, OPTIONAL, TIME) /* of combining splits of the keys through global memory */                    \
  X(object, cluster_ns, OPTIONAL, TIME) /* of combining them within clusters of blocks; 0: there are no clusters */    \
  X(object, combine_element_ns, OPTIONAL, TIME)  /* and for each element of O that a group of query heads has */       \
  X(object, read_latency_ns, OPTIONAL, TIME)     /* from a copy's start to its data, while all multiprocessors read */ \
  X(object, fill_share, OPTIONAL, SHARE_OF_RATE) /* of the time of reading l2_bytes: added while the cache fills */    \
  X(object, reach, OPTIONAL, REACH) /* bandwidth of one multiprocessor, over its share of the whole; 0: no limit */
typedef struct hr_decode_cost {
  HR_DECODE_COSTS(HR_COST_MEMBER, )
} hr_decode_cost;

/** Cost of fused attention over many queries. busy_ns and load_share are of Headroom's kernel for Hopper, whose work
 *  items are known; hr_predict_attention_by() defines the terms. */
#define HR_PREFILL_COSTS(X, object)                                                                                  \
  X(object, launch_ns, GIVEN, TIME)         /* the shortest call; 0: this cost is not known */                       \
  X(object, block_ns, OPTIONAL, TIME)       /* overhead of one Q tile */                                             \
  X(object, share, OPTIONAL, SHARE_OF_RATE) /* of the best GEMM, long sequences, no mask; 0: by forward_share */     \
  X(object, forward_share, OPTIONAL, SHARE_OF_RATE) /* times that of hr_attention_share, for the head size; 0: 1 */  \
  X(object, element_ns, OPTIONAL, TIME) /* of one Q tile of 128 rows, for each element of its head, besides */       \
  X(object, busy_ns, OPTIONAL, TIME) /* launch: added where every multiprocessor has a Q tile, else in proportion */ \
  X(object, load_share, OPTIONAL, SHARE)         /* of the bandwidth; 0: as hr_hardware.bandwidth_share */           \
  X(object, key_ns, OPTIONAL, TIME)              /* of servers' kernels: that a Q tile takes for a key at least */   \
  X(object, packed_share, OPTIONAL, PART)        /* of a K head's query heads, that a server's Q tile holds */       \
  X(object, packed_window_share, OPTIONAL, PART) /* and where there is a window; 0: one */                           \
  X(object, window_launch_ns, OPTIONAL, TIME)    /* the shortest call with a window; 0: as launch_ns */
typedef struct hr_prefill_cost {
  HR_PREFILL_COSTS(HR_COST_MEMBER, )
} hr_prefill_cost;

/** Cost of the routed experts of a layer by the kernels of inference servers: grouped GEMMs, whose experts' rows are
 *  padded to whole tiles, and the kernels around them, which sort the tokens by expert. */
#define HR_EXPERT_COSTS(X, object)                                                                                     \
  X(object, routing_ns, GIVEN, TIME)      /* of choosing experts and sorting tokens; 0: this cost is not known */      \
  X(object, sort_ns, OPTIONAL, TIME)      /* of choosing: for each 8 experts of a token beyond the first 8 */          \
  X(object, choice_ns, OPTIONAL, TIME)    /* of sorting: for each expert of each token beyond the first 8 */           \
  X(object, remote_share, OPTIONAL, PART) /* of a token's copies for experts elsewhere, which are moved, too */        \
  X(object, matrix_share, OPTIONAL, SHARE_OF_RATE) /* of the library's rate, which a grouped GEMM reaches */           \
  X(object, load_share, OPTIONAL, SHARE)           /* of the bandwidth, at which it reads its operands */              \
  X(object, expert_ns, OPTIONAL, TIME)             /* of a grouped GEMM, for each expert that has rows */              \
  X(object, moved_share, OPTIONAL, SHARE) /* of the bandwidth, at which tokens are copied to their experts and back */ \
  X(object, matrix_share_8bit, OPTIONAL, SHARE_OF_RATE) /* these three of 8 bit operands; 0: as the others */          \
  X(object, load_share_8bit, OPTIONAL, SHARE)                                                                          \
  X(object, expert_ns_8bit, OPTIONAL, TIME)
typedef struct hr_expert_cost {
  HR_EXPERT_COSTS(HR_COST_MEMBER, )
} hr_expert_cost;

/** Cost of 8 bit GEMMs whose activations are rounded by a kernel of its own, as in eager mode. */
#define HR_ROUNDING_COSTS(X, object)                                                                               \
  X(object, launch_ns, GIVEN, TIME)           /* of that kernel; 0: this cost is not known */                      \
  X(object, bandwidth_share, OPTIONAL, SHARE) /* at which the elements are read, and written rounded */            \
  X(object, element_ns, OPTIONAL, TIME) /* of a row's elements, one after the other, where multiprocessors idle */ \
  X(object, matrix_share, OPTIONAL, SHARE_OF_RATE) /* of the library's rate, which the GEMM reaches; 0: 1 */
typedef struct hr_rounding_cost {
  HR_ROUNDING_COSTS(HR_COST_MEMBER, )
} hr_rounding_cost;

/** Cost of one family of a library's GEMM kernels, which share their cost and differ in their tiles. In ns at the clock
 *  of large GEMMs (tma, simt) or at its limit (aligned_4, aligned_2). A step is one along k; a multiprocessor runs the
 *  blocks of a wave together. src/analysis/predict/gemm_tile_time.c adds the terms up. */
#define HR_GEMM_KERNEL_COSTS(X, object)                                                                               \
  X(object, launch_ns, GIVEN, TIME)  /* the shortest such GEMM; 0: this cost is not known */                          \
  X(object, busy_ns, OPTIONAL, TIME) /* launch: added where every multiprocessor has a tile, else in proportion */    \
  X(object, matrix_share, OPTIONAL, SHARE_OF_RATE) /* arithmetic: times the library's rate of a tile; 0: 1 */         \
  X(object, row_ns, OPTIONAL, TIME)                /* loads: of each row that is contiguous along k, in a step */     \
  X(object, column_ns, OPTIONAL, TIME)             /* loads: of each other row, in a step; 0: as row_ns */            \
  X(object, short_k, OPTIONAL, ELEMENTS) /* loads: 1 - exp(-k / short_k) of row_ns: rows share cache lines; 0: all */ \
  X(object, load_16, OPTIONAL, TIMES_AS_LONG) /* loads: times as long for rows of 16 bytes; 0: 1 */                   \
  X(object, latency_ns, OPTIONAL, TIME)       /* latency: that a step takes at least */                               \
  X(object, row_latency_ns, OPTIONAL, TIME)   /* latency: for each row and column of the tile: fewer are under way */ \
  X(object, step_ns, OPTIONAL, TIME)          /* of a block, for each step, besides */                                \
  X(object, store_bytes_per_ns, OPTIONAL, STORE_RATE) /* stores: of a multiprocessor; compute does not hide them */   \
  X(object, wave_ns, OPTIONAL, TIME)   /* waves: pipelines of the blocks of a multiprocessor fill and drain */        \
  X(object, refill_ns, OPTIONAL, TIME) /* waves: added once where tiles fill more than two */                         \
  X(object, split_ns, OPTIONAL, TIME)  /* split: of splitting k, */                                                   \
  X(object, part_ns, OPTIONAL, TIME)   /* and of each part */                                                         \
  X(object, sector_bytes_per_ns, OPTIONAL, STORE_RATE) /* memory: where rows of the result have half a sector more */
typedef struct hr_gemm_kernel_cost {
  HR_GEMM_KERNEL_COSTS(HR_COST_MEMBER, )
} hr_gemm_kernel_cost;

/** Cost of a recurrent mixer's scan, or of its short convolution, by the kernels that frameworks run. A sequence takes
 *  launch + busy + max(0, token_ns · tokens − busy / 4), where busy is bytes / (bandwidth_share · bandwidth) +
 *  FLOPs / (matrix_share · library's rate) and bytes contain the states of chunks; a decode step takes update_ns +
 *  bytes / (update_share · bandwidth). Shares of 0 are hr_hardware.bandwidth_share; without one of the rate FLOPs take
 *  no time. */
#define HR_SCAN_COSTS(X, object)                                                                                    \
  X(object, launch_ns, GIVEN, TIME)                /* of all kernels over a sequence; 0: this cost is not known */  \
  X(object, bandwidth_share, OPTIONAL, SHARE)      /* at which operands, results and final states move */           \
  X(object, matrix_share, OPTIONAL, SHARE_OF_RATE) /* of the library's rate of plain GEMMs */                       \
  X(object, token_ns, OPTIONAL, TIME)      /* of a token: states follow one another, however many units are idle */ \
  X(object, update_ns, OPTIONAL, TIME)     /* the shortest decode step; 0: the cost of one is not known */          \
  X(object, update_share, OPTIONAL, SHARE) /* of the bandwidth, at which it moves operands and states */
typedef struct hr_scan_cost {
  HR_SCAN_COSTS(HR_COST_MEMBER, )
} hr_scan_cost;

/** Costs of a server's own kernels, in place of the common ones, which are taken where a launch or routing_ns
 *  is 0. The rounding, of rows of `validate`, has all kernels around the GEMM of a linear layer. */
#define HR_SERVER_COSTS(X, object)           \
  HR_ROUNDING_COSTS(X, object.rounding)      \
  HR_EXPERT_COSTS(X, object.experts)         \
  HR_EXPERT_COSTS(X, object.experts_8bit)    \
  HR_EXPERT_COSTS(X, object.experts_cutlass) \
  HR_EXPERT_COSTS(X, object.experts_triton)  \
  HR_PREFILL_COSTS(X, object.prefill)        \
  HR_DECODE_COSTS(X, object.decode)
typedef struct hr_server_cost {
  char version[24]; /* of the server that they are fitted to; "": none is */
  hr_rounding_cost rounding;
  hr_expert_cost experts, experts_8bit;           /* of 8 bits: where it has other kernels for them */
  hr_expert_cost experts_cutlass, experts_triton; /* of these kernels, where its usual ones are others */
  hr_prefill_cost prefill;
  hr_decode_cost decode;
} hr_server_cost;

/** Speed of GEMMs whose contiguous dimensions are multiples of `bytes` but not of the next larger class, as shares of
 *  the rate of the best class. */
#define HR_ALIGNMENT_CLASS_ROWS(X, list, count)                                                               \
  X(list, count, int64_t, bytes, NEEDED, ALIGNMENT)                          /* a power of two */             \
  X(list, count, double, gemm_share, FIT_BUT_LAST(GEMMS, NEEDED), SHARE)     /* plain ones */                 \
  X(list, count, double, bmm_share, FIT_BUT_LAST(GEMMS, NEEDED), SHARE)      /* the same for batched GEMMs */ \
  X(list, count, double, result_share, FIT_BUT_LAST(GEMMS, OPTIONAL), SHARE) /* the result alone is; 0: gemm_share */
typedef struct hr_alignment_class {
  HR_ALIGNMENT_CLASS_ROWS(HR_ROW_MEMBER, , )
} hr_alignment_class;

/** A tile of the result that one multiprocessor (one core of a CPU) computes at a time. */
#define HR_TILE_ROWS(X, list, count)       \
  X(list, count, int64_t, m, NEEDED, SIDE) \
  X(list, count, int64_t, n, NEEDED, SIDE) \
  X(list, count, double, share, FIT_BUT_FIRST(GEMMS, NEEDED), SHARE) /* of the best rate, when every slot is busy */
typedef struct hr_tile {
  HR_TILE_ROWS(HR_ROW_MEMBER, , )
} hr_tile;

/** Speed of the fused attention kernel for heads of at most `head_dim` elements (the larger of qk_dim and v_dim), as
 *  shares of the library's best GEMM, for long sequences without a mask. */
#define HR_ATTENTION_SHARE_ROWS(X, list, count)                                                                       \
  X(list, count, int64_t, head_dim, NEEDED, SIDE)                                                                     \
  X(list, count, double, forward_share, FIT(ATTENTION, NEEDED), SHARE_OF_RATE)                                        \
  X(list, count, double, backward_share, NEEDED, SHARE_OF_RATE)                                                       \
  X(list, count, double, headroom_share, FIT(ATTENTION, OPTIONAL), SHARE_OF_RATE) /* 0: as forward_share */           \
  X(list, count, double, short_share, FIT(ATTENTION, OPTIONAL),                                                       \
    SHARE_OF_RATE) /* its tiles of up to 64 keys for up to 1024; 0: same */                                           \
  X(list, count, double, headroom_backward_share, OPTIONAL, SHARE_OF_RATE) /* Headroom's own; 0: as backward_share */ \
  X(list, count, double, full_share, FIT(ATTENTION, OPTIONAL),                                                        \
    SHARE_OF_RATE) /* without a mask; 0: as forward_share */                                                          \
  X(list, count, double, fp8_share, FIT(ATTENTION, OPTIONAL),                                                         \
    SHARE_OF_RATE) /* of the best fp8 GEMM; 0: by forward_share */
typedef struct hr_attention_share {
  HR_ATTENTION_SHARE_ROWS(HR_ROW_MEMBER, , )
} hr_attention_share;

#endif
