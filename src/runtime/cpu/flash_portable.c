/* Flash attention, plain C, whatever the processor; bf16 and fp16 are widened as they are packed.
 *
 *   registers: 4 rows × 2 vectors of 4 sums, 2 of K or V, 1 of Q or P: 11, which every 64-bit processor has.
 *
 * On a core of an AMD EPYC (Zen 5), November 2026, one thread, head size 64, length 1024, compiled for plain x86-64, which
 * has no fused multiply-add: 23.6 GFLOP/s. */
#include "runtime/cpu/flash.h"

#include "runtime/cpu/vector_portable.h"

#define CHUNK 128
#define STEP 128
#define PANEL 2
#define PAIR 1
#define KEY_GROUP LANES
#define DEGREE 6
#include "runtime/cpu/flash_rows.h"

#define TILE 4

static inline vector multiply_words(vector sum, vector a, vector b)
{
  return vector_multiply_add(a, b, sum);
}

#include "runtime/cpu/flash_product.h"

const hr_flash_version hr_flash_portable = {.lanes = PANEL_LANES,
                                            .key_group = KEY_GROUP,
                                            .value_group = LANES,
                                            .pair = PAIR,
                                            .depth_group = 1,
                                            .tile_rows = 48,
                                            .chunk = CHUNK,
                                            .step = STEP,
                                            .pack_rows = 16,
                                            .pack_q = pack_q,
                                            .pack_k = pack_k,
                                            .pack_v = pack_v,
                                            .attend = attend,
                                            .finish = finish,
                                            .exp2 = powers_of_two};
