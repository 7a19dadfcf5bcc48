/* SPDX-License-Identifier: Apache-2.0 */
/* Predicted times and their terms. Thread safety: values, and steps, which are immutable; pure functions. */
#ifndef HEADROOM_PREDICT_H
#define HEADROOM_PREDICT_H

#include <headroom/collective.h>
#include <headroom/decode.h>
#include <headroom/hardware.h>
#include <headroom/operators.h>

#ifdef __cplusplus
extern "C" {
#endif

/** The term that binds a time. */
typedef enum hr_bound {
  HR_BOUND_MATRIX,       /* the matrix units at the library's rate */
  HR_BOUND_MEMORY,       /* main memory bandwidth */
  HR_BOUND_LAUNCH,       /* the launch is at least half of the time */
  HR_BOUND_ALIGNMENT,    /* misaligned operands */
  HR_BOUND_QUANTIZATION, /* tiles and waves add more than the useful time */
  HR_BOUND_INTERCONNECT, /* links between the devices of a node */
  HR_BOUND_NETWORK       /* the network between nodes */
} hr_bound;

typedef struct hr_prediction {
  double time_ns;         /* of one execution */
  double low_ns, high_ns; /* nine of ten measured times lie within (the device's intervals), or the error band */
  hr_bound bound_by;
  double efficiency; /* share of the datasheet rate (of the bandwidth, for memory operators); 0 … 1 */

  /* Terms in ns. The time is at least the largest; hr_predict_gemm() defines how they overlap. */
  double matrix_ns; /* useful FLOPs at the library's rate */
  double tile_ns;   /* added by the parts of tiles beyond the edge, by slower tiles, and by stores */
  double store_ns;  /* the part of tile_ns that writes the result, which is also memory time */
  double wave_ns; /* added by empty slots in the last wave; decode by Headroom's GPU kernel: by waves after the first */
  double alignment_ns; /* added by misaligned operands; these at the settled clock of large GEMMs, see clock_ns */
  double memory_ns;    /* bytes over bandwidth */
  double launch_ns;
  double pair_ns;     /* decode: K and V heads of short sequences, one after another on each multiprocessor; grouped
                      GEMMs: the experts that have rows */
  double split_ns;    /* decode: splitting the keys of a few sequences and combining the parts */
  double cache_ns;    /* prefill: copying K and V into the KV cache */
  double rounding_ns; /* GEMM of a step: rounding the activations to 8 bits in a kernel before it */
  double padding_ns;  /* GEMM of a compiled step: copying misaligned operands into padded ones; 0: it is not padded */

  double tile_waste;      /* share of the tiles' area outside the result; 0 … 1 */
  double wave_waste;      /* share of the slots that are empty over all waves; 0 … 1 */
  double alignment_loss;  /* share of the compute time that misalignment takes; 0 … 1 */
  int64_t tile_m, tile_n; /* the assumed tile; 0 if none */
  int64_t tiles, waves;
  int64_t splits;                                /* split-K factor that fills the slots; 1: not split, 0: no tiles */
  int64_t m_alignment, n_alignment, k_alignment; /* largest power of two dividing each size, bytes, at most 128 */
  int64_t alignment; /* the smallest over the contiguous dimensions of A, B and C, which selects the class; bytes */

  /* GEMMs only, further terms in ns. matrix + tile + wave + alignment + reduction + clock + exposed + launch = time. */
  double reduction_ns; /* added by splitting k: reducing the partial results */
  double clock_ns;     /* at most 0: what a clock above the settled one of large GEMMs saves */
  double exposed_ns;   /* the part of memory_ns that compute does not hide */
} hr_prediction;

/** Time of a GEMM. docs/prediction-model.md explains the model and its accuracy.
 *
 *  For each tile of the device: tiles = ⌈m/tm⌉·⌈n/tn⌉·batch, waves = ⌈tiles·splits / slots⌉, and the compute time is
 *  that many full waves at the library's rate × the tile's share, plus the exposed stores, slowed down by the alignment
 *  class; the tile and the split of k with the least time are chosen. A higher clock when slots idle or wait recovers
 *  part of the loss. matrix, tile, wave, alignment, reduction and clock_ns sum to the compute time p; with the memory
 *  time m the result is (p³ + m³)^⅓ + launch. hr_hardware_set_conditions() says what the time is for. Source: roofline
 *  with the quantizations of Anthony et al. 2024, section III-B. The contiguous dimensions select the
 *  alignment class (hr_gemm's transposes determine them). HR_ERROR_UNSUPPORTED if the device has no rate for the
 *  format; errors of hr_gemm_check(). */
HR_API hr_status hr_predict_gemm(const hr_hardware *hardware, const hr_gemm *gemm, hr_prediction *prediction,
                                 hr_error *error);

/** Time of a fused attention kernel of a framework: both GEMMs at the library's rate × the share that fused kernels
 *  reach at this head size, quantized by Q tiles of 16 to 128 rows, overlapped with the memory traffic; with fewer than
 *  128 queries over at least 8 times as many keys split-KV if that is faster (see hr_predict_decode()). Writing K and V
 *  into a cache is not part of it. Errors as hr_predict_gemm(). */
HR_API hr_status hr_predict_attention(const hr_hardware *hardware, const hr_attention *attention,
                                      hr_prediction *prediction, hr_error *error);

/** The same by the kernels of `framework`; HR_FRAMEWORK_HEADROOM: of this library, with its prefill_headroom. A
 *  GPU of architecture "hopper" with these costs is predicted by the kernel's own tiles and schedule: launch +
 *  (b^1.5 + memory^1.5)^⅔, b = (longest⁶ + useful⁶)^⅙. `longest` is the time of the multiprocessor that ends last: its
 *  K/V tiles at headroom_share or short_share of the library's rate, and block_ns + element_ns · head size for each of
 *  its Q tiles; `useful` are the FLOPs at that share on all multiprocessors; the launch has busy_ns for the share of
 *  multiprocessors that have a Q tile. HR_ERROR_INVALID for a framework outside the list. */
HR_API hr_status hr_predict_attention_by(const hr_hardware *hardware, const hr_attention *attention,
                                         hr_framework framework, hr_prediction *prediction, hr_error *error);

/** Time of a decode call by this library's kernels, all of whose sequences have kv_len tokens: split-KV (Dao et al.
 *  2023, "Flash-Decoding for long-context inference"). With the costs of the device's decode_headroom it is launch +
 *  (compute³ + memory³ + pairs³)^⅓ + split, where memory is hr_decode_bytes(), pairs the K or V heads of all sequences
 *  over the multiprocessors times the cost of one, and split the doublings of the keys beyond 128 times the share of
 *  multiprocessors without a pair. With wave_ns the thread blocks of the GPU's kernel are counted instead: the time is
 *  launch + (compute³ + r³)^⅓ + combining, r = reading + (waves − 1) · (wave_ns + element_ns · head size), the launch
 *  has busy_ns for the share of multiprocessors with a block and element_ns · head size, and reading is
 *  (memory³ + waiting³)^⅓ · (1 + 0.2 · empty slots / blocks) + filling: waiting is the number of times that the bytes
 *  under way are exchanged times read_latency_ns, filling fill_share of the time for the first l2_bytes. In one wave
 *  the multiprocessor with most blocks reads at most at `reach` times its share of the bandwidth. A page table, a soft
 *  cap and sinks cost nothing.
 *  HR_ERROR_UNSUPPORTED also for kv_len 0; errors of hr_decode_check() instead of hr_gemm_check(). */
HR_API hr_status hr_predict_decode(const hr_hardware *hardware, const hr_decode *decode, hr_prediction *prediction,
                                   hr_error *error);

/** The same by the kernels of `framework`, whose time includes writing the new K and V to the cache unless it is
 *  HR_FRAMEWORK_HEADROOM. HR_ERROR_INVALID for a framework outside the list. */
HR_API hr_status hr_predict_decode_by(const hr_hardware *hardware, const hr_decode *decode, hr_framework framework,
                                      hr_prediction *prediction, hr_error *error);

/** A step: its operators with their predictions, and the sum.
 *
 *  One microbatch passes all p stages in microbatch_time_ns = Σ executions · time; each stage takes as long as the one
 *  with the most layers, so layers count as p·⌈layers/p⌉. Each further microbatch adds the time of the slowest stage:
 *  time_ns = microbatch_time_ns + (m − 1) · stage_time_ns, which is (m + p − 1) · stage_time_ns where all stages are
 *  equal (1F1B and GPipe: Narayanan et al. 2021, arXiv 2104.04473, section 2.2). In decode a stage that is free takes
 *  the next token of another microbatch: only those beyond p add their time.
 *
 *  Training sends weights and gradients between replicas while its passes compute. A pass hides at most `overlap` of
 *  its time on a device; the rest is exposed and adds to time_ns: once a step, or m + p − 1 times if the ZeRO stage
 *  sends with each microbatch. */
typedef struct hr_step hr_step;

/** The sums of a step. The library returns pointers to its own, which later releases may end with further members. */
typedef struct hr_step_about {
  size_t operator_count; /* of hr_step_operator() */
  double time_ns;        /* of all microbatches */
  double low_ns, high_ns;
  double layer_time_ns; /* of one layer and microbatch */
  double logit_time_ns; /* of everything outside the layers, one microbatch */
  double tokens_per_s; /* of all replicas: dp · m · batch · sequence (decode: dp · m · batch) over the step's time */
  double model_efficiency;        /* time of a device's FLOPs, less recomputed ones, at the datasheet rates of the
                              formats that are multiplied, over the step's time */
  double microbatch_time_ns;      /* of one microbatch through all stages */
  double stage_time_ns;           /* of the slowest stage and one microbatch */
  double bubble;                  /* share of the step in which the slowest stage waits for another stage, without
                              exposed_ns; 0 if p = 1 */
  double tokens_per_s_per_device; /* tokens_per_s / (t · p · cp · dp) */
  double replica_ns;              /* communication between replicas in a step, hidden or not */
  double exposed_ns;              /* the part of time_ns that waits for it */
  double communication_ns;        /* of time_ns: in communication between devices */
  int64_t kernels;                /* launched for a microbatch on a device of the first pipeline stage; all layers */
  double host_ns;      /* HR_FRAMEWORK_EAGER: the host's time to launch them all, which a step takes at least; else 0 */
  double optimizer_ns; /* of time_ns: the update of the weights, once a step; 0 if the step does not train */
} hr_step_about;

/** The step of a model on a device. */
typedef struct hr_subject {
  const hr_model *model;
  const hr_workload *workload;
  const hr_hardware *hardware;
} hr_subject;

/** Predicts a step. On HR_OK the caller owns *step, which is immutable, and frees it with hr_step_free(). Errors of
 *  hr_operators_list() and hr_predict_operator(), and HR_ERROR_OUT_OF_MEMORY; *step is then untouched. */
HR_API hr_status hr_predict_step(const hr_hardware *hardware, const hr_model *model, const hr_workload *workload,
                                 hr_step **step, hr_error *error);

/** Frees a step; NULL is allowed. */
HR_API void hr_step_free(hr_step *step);

/** The sums of a step. Never NULL; valid as long as the step. */
HR_API const hr_step_about *hr_step_describe(const hr_step *step);

/** The operator of an index below operator_count; NULL for a larger one. Valid as long as the step. */
HR_API const hr_operator *hr_step_operator(const hr_step *step, size_t index);

/** The prediction of one execution of hr_step_operator(); NULL and validity as there. */
HR_API const hr_prediction *hr_step_prediction(const hr_step *step, size_t index);

/** The term that makes up most of the time: "matrix", "tile", "wave", "alignment", "memory", "launch", "pair", "split",
 *  "cache", "rounding" or "padding". Static storage. */
HR_API const char *hr_prediction_largest_term(const hr_prediction *prediction);

/** "matrix", "memory", "launch", "alignment", "quantization", "interconnect", "network". Static storage. */
HR_API const char *hr_bound_name(hr_bound bound);

#ifdef __cplusplus
}
#endif
#endif
