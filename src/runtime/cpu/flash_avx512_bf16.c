/* Flash attention, bf16 by AVX-512's products of pairs (vdpbf16ps); softmax in fp32. */
#include "runtime/cpu/flash.h"

#if defined(__x86_64__)

#include "runtime/cpu/vector_avx512.h"
#include "runtime/cpu/vector_bf16.h"

#define CHUNK 128
#define STEP 128
#define PANEL 4
#define PAIR 2
#define KEY_GROUP LANES
#define DEGREE 4
#include "runtime/cpu/flash_rows.h"

#define TILE 6

static inline vector multiply_words(vector sum, vector a, vector b)
{
  return vector_multiply_pairs(sum, a, b);
}

#include "runtime/cpu/flash_product.h"

const hr_flash_version hr_flash_avx512_bf16 = {.lanes = PANEL_LANES,
                                               .key_group = KEY_GROUP,
                                               .value_group = LANES,
                                               .pair = PAIR,
                                               .depth_group = 1,
                                               .tile_rows = 48,
                                               .chunk = CHUNK,
                                               .step = STEP,
                                               .pack_rows = 32,
                                               .pack_q = pack_q,
                                               .pack_k = pack_k,
                                               .pack_v = pack_v,
                                               .attend = attend,
                                               .finish = finish,
                                               .exp2 = powers_of_two};

#endif
