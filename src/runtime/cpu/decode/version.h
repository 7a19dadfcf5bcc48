/* SPDX-License-Identifier: Apache-2.0 */
/* Decode attention on the CPU: the interface between the common part (decode.c, task.c) and the versions, one for each
 * instruction set.
 *
 * Vectors of Q, O and of scratch memory are fp32 and padded with zeros to HR_SPLIT_PAD. Their elements are in the order
 * of simd_load_pair(), with a quantized cache in that of memory. */
#ifndef HR_RUNTIME_CPU_DECODE_VERSION_H
#define HR_RUNTIME_CPU_DECODE_VERSION_H

#include <headroom/decode.h>

#define HR_SPLIT_BLOCK 32       /* keys whose scores are in memory at a time, by versions without tiles */
#define HR_SPLIT_BLOCK_MAX 128  /* by any version */
#define HR_SPLIT_TILE 16        /* keys, and query rows, of an AMX tile: up to so many rows of a V head are direct */
#define HR_SPLIT_PAD 32         /* elements */
#define HR_SPLIT_SCRATCH_KEYS 4 /* K rows that are widened at a time */
#define HR_SPLIT_SCRATCH_VALUES 2048 /* floats: a block of V, some columns of it */

/** Formats of K and V are those of hr_dtype and int8. Versions load fp8 divided by HR_SPLIT_FP8_SCALE. */
#define HR_SPLIT_INT8 HR_DTYPE_COUNT
#define HR_SPLIT_FP8_SCALE 256

/** Rows of a cache: `bytes` bytes from `offset` behind each address on. */
typedef struct hr_split_rows {
  const char *const *at;
  int64_t offset, bytes;
  int keys;             /* 0: none */
  const int64_t *pitch; /* for versions with tiles: from row to row of each tile, or 0 if that differs */
} hr_split_rows;

/** A score is Q·K · scale, or with a soft cap tanh(Q·K · scale) · softcap. Its weight is 2^top e^(score − base);
 *  the base is the largest score. */
typedef struct hr_split_scores {
  float scale, softcap;
  float top; /* hr_decode_top() */
} hr_split_scores;

hr_split_scores hr_split_score_rules(const hr_decode *decode);

/** What 1 stands for in a loaded K or V, without its scale: HR_SPLIT_FP8_SCALE in fp8. Scores and O are multiplied by
 *  it after the scales, of which the largest leave no room. */
double hr_split_loaded_unit(const hr_decode *decode);

/** Query rows that share a K or V head, and a block of keys. Query row r sees keys first[r % q_len] … end[r % q_len]
 *  − 1 of the block. */
typedef struct hr_split_step {
  hr_dtype dtype; /* of K and V */
  int64_t rows, q_len;
  int64_t k_rows; /* those of a K head */
  bool direct;    /* with tiles: V is multiplied as it is in memory; an infinity of it then reaches two columns of O */
  int block;      /* keys of a whole block */
  int keys;       /* keys of this one */
  const int *first, *end;
  hr_split_rows from;         /* rows of K or V */
  hr_split_rows ahead, later; /* those that are prefetched meanwhile */
  int64_t dim;                /* elements of a row of K or V */
  const float *q;             /* [rows][qk_dim, padded]; with tiles, see decode_amx.c */
  float *s;                   /* [rows][HR_SPLIT_BLOCK] products, then weights; with tiles, of whole tiles of rows */
  void *p;                    /* with tiles: weights in bf16, see decode_amx.c */
  int64_t p_pitch;            /* bytes of a row of p */
  float *o;                   /* [rows][v_dim, padded] */
  float *base, *total;        /* [rows] the largest score, −inf at first; the sum of weights */
  float *factor;              /* [rows] rescales o */
  float *scratch;
} hr_split_step;

/** The sums of `rows` query rows over some keys, as in hr_split_step. */
typedef struct hr_split_sums {
  int64_t rows, pitch; /* pitch: floats of a row of o */
  float *base, *total, *o;
} hr_split_sums;

typedef struct hr_split_version {
  /** Scores are of whole tiles of query rows, and blocks of up to HR_SPLIT_BLOCK_MAX keys. */
  bool tiles;
  /** Before and after the tasks of a thread; may be NULL. */
  void (*enter)(void);
  void (*leave)(void);
  /** Row number `row` of a head's Q, which begins at `to`, widened. in_order: in the order of memory. */
  void (*load)(hr_dtype dtype, bool in_order, const void *from, int64_t dim, int64_t row, float *to);
  /** s = products of Q and K. */
  void (*multiply)(const hr_split_step *step);
  /** Multiplies s by scales[HR_SPLIT_BLOCK] of the keys. */
  void (*scale_keys)(const hr_split_step *step, const float *scales);
  /** s becomes weights; base, total and factor follow. */
  void (*online_softmax)(const hr_split_step *step, const hr_split_scores *scores);
  /** o = o · factor + weights · V. Only keys that a query row sees take part in it. */
  void (*add_values)(const hr_split_step *step);
  /** Whether all of o is finite. NULL: steps are never direct. */
  bool (*is_finite)(const hr_split_sums *sums);
  /** Behind the last direct step of a V head: o gets its layout. */
  void (*end_direct)(const hr_split_step *step);
  /** Adds `more` to `sums`. To empty sums (base −inf, others 0) it adds exactly. */
  void (*merge)(const hr_split_sums *sums, const hr_split_sums *more);
  /** Bits of those of `count` floats that are not smaller than `bound`, NaN among them: 64 to a word. All floats of the
   *  last word can be read. */
  void (*at_least)(const float *s, int64_t count, float bound, uint64_t *bits);
  /** A row of O: o · share. May change the order of o. */
  void (*store)(hr_dtype dtype, bool in_order, float *o, float share, int64_t dim, void *to);
} hr_split_version;

extern const hr_split_version hr_split_amx, hr_split_avx512, hr_split_avx2, hr_split_neon, hr_split_portable;

/** The format in which a version reads K and V: that of the cache, or HR_SPLIT_INT8. */
hr_dtype hr_split_format(const hr_decode *decode);

#endif
