/* What the versions of flash attention on the CPU share.
 *
 * Online softmax (Milakov and Gimelshein, arXiv 1805.02867; Dao et al., arXiv 2205.14135): for each query row three
 * things are kept while blocks of keys go by, the largest score m so far, the sum l of exp(s − m), and o, the sum of
 * exp(s − m) · V. A block with a larger m' scales l and o by exp(m − m'); at the end O = o / l. So nothing of size
 * q_len × kv_len is ever there. Instead of m a version may keep anything near it; it is called the row's base.
 *
 *   item:  one sequence, some queries, the query heads that share K or V heads        one thread, no other touches it
 *   chunk: CHUNK keys; their K and V are packed once for all rows of the item
 *   tile:  rows of the item with one K head and one V head
 *   step:  a tile against STEP keys of a chunk: S = Q Kᵀ, softmax of the rows, o += P V
 *
 * Chunks and steps begin at multiples of their size, whatever the item, and a masked key adds exactly 0; so an element
 * of O is the same bits for any number of threads. */
#ifndef HR_RUNTIME_CPU_FLASH_FLASH_H
#define HR_RUNTIME_CPU_FLASH_FLASH_H

#include <headroom/dtype.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/** Vectors of lanes that a version keeps per row for l; the largest of all versions. */
#define HR_FLASH_LANES_MAX 16

/** Rows of a tile, at most; what is kept per row of one step lies on the stack. */
#define HR_FLASH_TILE_ROWS_MAX 64

/** Rows that begin this many bytes apart or more are prefetched: processors foresee by themselves what lies
 *  within 4 KiB and mostly side by side. Prefetching rows side by side, too, was 0.95 to 1.06 times as fast
 *  (flash_amx.c's machine, idle and busy). */
#define HR_FLASH_PREFETCH_STRIDE 1024

/** Prefetches a row that will be read or written soon, from those `stride` bytes apart. It need not be there. */
static inline void hr_flash_prefetch(const char *row, int64_t stride, int64_t bytes)
{
  for (int64_t at = 0; at < bytes && stride >= HR_FLASH_PREFETCH_STRIDE; at += 64)
    __builtin_prefetch(row + at, 0, 2);
}

/** What softmax does to a score before it is a power of two. */
typedef struct hr_flash_scores {
  float to_log2; /* scores · this are exponents of 2; positive */
  float softcap; /* 0: none. Then S = softcap · tanh(S · softcap_scale), and to_log2 is log2(e) */
  float softcap_scale;
  float scale; /* with ALiBi and no soft cap: S = S · scale first */
  bool alibi;
} hr_flash_scores;

/** A tile against the keys of a step. Rows are those of the tile. */
typedef struct hr_flash_step {
  const hr_flash_scores *scores;
  int rows;
  int first_key, keys;        /* within the chunk; whole groups of key_group */
  int64_t depth;              /* words of a packed row of Q and K */
  int64_t values;             /* floats of a row of o: v_dim, padded */
  const void *q;              /* rows × depth words */
  const void *k, *v;          /* the chunk, packed */
  const int32_t *first, *end; /* [rows] keys that a row sees, counted from first_key on; may lie outside */
  const float *slopes;        /* [rows], with ALiBi */
  const int32_t *position;    /* [rows], with ALiBi: that of the query, counted from first_key on */
  float *s;                   /* the version's score_floats: scores, and weights where those are fp32 */
  void *p;                    /* likewise its weights, in the packed format */
  float *factor, *shift;      /* [rows] what the step scales o by, what it adds to an exponent */
  float *base;                /* [rows] exponent of 2 that weighs 1; −inf at first */
  float *total;               /* rows × HR_FLASH_LANES_MAX, partial sums of l; 0 at first */
  float *o;                   /* rows × values */
  bool fresh;                 /* o is not set yet; it stands for 0 */
  bool scaled;                /* for a version that asks: some factor is not 1 */
  int weighed;                /* likewise: keys that have weights */
} hr_flash_step;

/** A version: sizes and the work on a chunk, a step and a row. Strides are in bytes. */
typedef struct hr_flash_version {
  int lanes;       /* columns of a panel of packed K and V */
  int key_group;   /* keys are padded to whole groups */
  int value_group; /* v_dim is padded to whole groups */
  int pair;        /* elements in a 4-byte word of packed Q, K, V and P */
  int depth_group; /* words of a row are padded to whole groups */
  int tile_rows, chunk, step;
  int score_floats, weights; /* of hr_flash_step.s and .p */
  int pack_rows;             /* rows whose arithmetic takes as long as packing; what the size of items is chosen by */
  void (*pack_q)(hr_dtype dtype, const void *from, int64_t dim, bool negate, void *to, int64_t depth);
  /** K of `keys` keys, padded with zeros, as panels [lanes of keys][depth][lanes]. */
  void (*pack_k)(hr_dtype dtype, const void *from, int64_t stride, int keys, int64_t dim, void *to, int64_t depth);
  /** V as panels [lanes of values][chunk / pair][lanes]. */
  void (*pack_v)(hr_dtype dtype, const void *from, int64_t stride, int keys, int64_t dim, void *to);
  /** Does a step. `next` is the one that will come after it, of the same chunk, or NULL: a version may begin with it
   *  while it works on this one, and tells by begin not being NULL; begin is then called for a step that had none
   *  before. */
  void (*attend)(hr_flash_step *step, hr_flash_step *next);
  void (*begin)(hr_flash_step *step);
  /** O of a row: o / sum of total; returns that sum. */
  float (*finish)(const float *o, const float *total, int64_t dim, hr_dtype dtype, void *to);
  void (*exp2)(float *x, int count); /* in place; what attend uses, for measuring its error */
  /** Around the items of a thread; may be NULL. */
  void (*enter)(void);
  void (*leave)(void);
} hr_flash_version;

extern const hr_flash_version hr_flash_portable;
#if defined(__x86_64__)
extern const hr_flash_version hr_flash_avx2, hr_flash_avx512, hr_flash_avx512_bf16, hr_flash_amx;
#endif

#endif
