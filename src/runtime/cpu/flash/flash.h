/* SPDX-License-Identifier: Apache-2.0 */
/* Flash attention on the CPU: the interface between the common part (flash.c) and the versions, one for each
 * instruction set.
 *
 * Online softmax (Milakov and Gimelshein, arXiv 1805.02867; Dao et al., arXiv 2205.14135): each query row keeps the
 * largest score m so far, the sum l of exp(s − m), and o, the sum of exp(s − m) · V. A block of keys with a larger m'
 * rescales l and o by exp(m − m'); at the end O = o / l. Nothing of size q_len × kv_len is stored. m is called the
 * row's base; a version may keep the exponent of 2 of another value near it instead.
 *
 *   item:  one sequence, some queries, the query heads that share K or V heads        one thread
 *   chunk: CHUNK keys, whose K and V are packed once for all rows of the item
 *   tile:  rows of the item with one K head and one V head                            the Q tile
 *   step:  a tile × STEP keys of a chunk: S = Q Kᵀ, softmax of the rows, o += P V     the K/V tile
 *
 * Chunks and steps begin at multiples of their size, whatever the item, and a masked key adds exactly 0; so an element
 * of O has the same bits for any number of threads. */
#ifndef HR_RUNTIME_CPU_FLASH_FLASH_H
#define HR_RUNTIME_CPU_FLASH_FLASH_H

#include <headroom/dtype.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/** Partial sums of l that a version keeps for each row, at most. */
#define HR_FLASH_LANES_MAX 16

/** Rows of a tile, at most. The arrays of a step's rows are on the stack. */
#define HR_FLASH_TILE_ROWS_MAX 64

/** Rows at least this many bytes apart are prefetched by software: hardware prefetchers predict accesses within 4 KiB
 *  that are mostly contiguous. */
#define HR_FLASH_PREFETCH_STRIDE 1024

/** Prefetches a row that is read or written soon, where rows are `stride` bytes apart. The address may be invalid. */
static inline void hr_flash_prefetch(const char *row, int64_t stride, int64_t bytes)
{
  for (int64_t at = 0; at < bytes && stride >= HR_FLASH_PREFETCH_STRIDE; at += 64)
    __builtin_prefetch(row + at, 0, 2);
}

/** Turns a score into an exponent of 2. The weight of a key is 2^((s − m) · to_log2 + add). The difference comes first:
 *  it is 0 for the largest score, however large that is, so that a key that decides alone has a weight of 2^add
 *  exactly. */
typedef struct hr_flash_scores {
  float to_log2;     /* positive */
  float add;         /* whole, so low that the weights of all keys add up to 1 at most: o is no larger than V */
  float least;       /* s − m whose exponent is −127; what is below weighs nothing */
  float unit;        /* a base times it is the natural logarithm of a weight's e^s; beyond fp32, a score is infinite */
  bool scaled_first; /* scores have their final value, with soft cap and ALiBi; to_log2 is log2(e) */
  float softcap;     /* 0: none. Then S = softcap · tanh(S · softcap_scale), otherwise S · scale, if scaled first */
  float softcap_scale, scale;
  bool alibi;
} hr_flash_scores;

/** The final score, scaled, whose weight is 1. */
static inline double hr_flash_unit_logarithm(const hr_flash_scores *scores, float base)
{
  return (double)base * (double)scores->unit - (double)scores->add * 0.6931471805599453;
}

/** A tile and the keys of a step. Rows are the tile's. */
typedef struct hr_flash_step {
  const hr_flash_scores *scores;
  int rows;
  int first_key, keys;        /* within the chunk; whole groups of key_group */
  int64_t depth;              /* words of a packed row of Q and K */
  int64_t values;             /* floats of a row of o: v_dim, padded */
  const void *q;              /* rows × depth words */
  const void *k, *v;          /* the chunk, packed */
  const int32_t *first, *end; /* [rows] visible keys, counted from first_key; may be out of range */
  const float *slopes;        /* [rows], with ALiBi */
  const int32_t *position;    /* [rows], with ALiBi: of the query, counted from first_key */
  float *s;                   /* the version's score_floats: scores, and weights where those are fp32 */
  void *p;                    /* the version's weights, in the packed format */
  float *factor, *shift;      /* [rows] rescales o; added to a score, or to an exponent */
  float *base;                /* [rows] the score whose weight is 2^add, or one near it; −inf at first */
  float *total;               /* rows × HR_FLASH_LANES_MAX, partial sums of l; 0 at first */
  float *o;                   /* rows × values */
  bool fresh;                 /* o is not initialized yet; it counts as 0 */
  bool rescaled;              /* for versions that use it: some factor is not 1 */
  int weights_done;           /* likewise: keys whose weights are computed */
} hr_flash_step;

/** A version: sizes, and functions on a chunk, a step and a row. Strides are in bytes. */
typedef struct hr_flash_version {
  int lanes;       /* columns of a panel of packed K and V */
  int key_group;   /* keys are padded to whole groups */
  int value_group; /* v_dim is padded to whole groups */
  int pair;        /* elements in a 4-byte word of packed Q, K, V and P */
  int depth_group; /* words of a row are padded to whole groups */
  int tile_rows, chunk, step;
  int score_floats, weights; /* of hr_flash_step.s and .p */
  int pack_rows;             /* rows whose arithmetic takes as long as packing a head; the item size depends on it */
  void (*pack_q)(hr_dtype dtype, const void *from, int64_t dim, bool negate, void *to, int64_t depth);
  /** K of `keys` keys, padded with zeros, as panels [lanes of keys][depth][lanes]. */
  void (*pack_k)(hr_dtype dtype, const void *from, int64_t stride, int keys, int64_t dim, void *to, int64_t depth);
  /** V as panels [lanes of values][chunk / pair][lanes]. */
  void (*pack_v)(hr_dtype dtype, const void *from, int64_t stride, int keys, int64_t dim, void *to);
  /** Runs a step. `next` is the step that follows, of the same chunk, or NULL: a version with begin_step may start on
   *  it while it works on this one. begin_step is then called for a step without a predecessor. */
  void (*run_step)(hr_flash_step *step, hr_flash_step *next);
  void (*begin_step)(hr_flash_step *step);
  /** O of a row: o / sum of total; returns that sum. */
  float (*finish)(const float *o, const float *total, int64_t dim, hr_dtype dtype, void *to);
  double (*unit_logarithm)(const hr_flash_scores *scores, float base); /* NULL: hr_flash_unit_logarithm() */
  void (*exp2)(float *x, int count); /* in place; the weights' 2^x, for x up to 127, for measuring its error */
  /** Called before and after the items of a thread; may be NULL. */
  void (*enter)(void);
  void (*leave)(void);
} hr_flash_version;

extern const hr_flash_version hr_flash_portable;
#if defined(__x86_64__)
extern const hr_flash_version hr_flash_avx2, hr_flash_avx512, hr_flash_avx512_bf16, hr_flash_amx;
#elif defined(__aarch64__)
extern const hr_flash_version hr_flash_neon;
#endif

#endif
