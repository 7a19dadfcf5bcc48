/* SPDX-License-Identifier: Apache-2.0 */
/* What may still change of <headroom/decode.h>, which says the rest. */
#ifndef HEADROOM_EXPERIMENTAL_DECODE_H
#define HEADROOM_EXPERIMENTAL_DECODE_H

#include <headroom/decode.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Strides with the defaults resolved. The problem has passed hr_decode_check(). */
HR_API hr_strides hr_decode_q_strides(const hr_decode *decode);

/** The same of O. */
HR_API hr_strides hr_decode_o_strides(const hr_decode *decode);

/** The same of K. */
HR_API hr_kv_strides hr_decode_k_strides(const hr_decode *decode);

/** The same of V; with `latent`, those of K. */
HR_API hr_kv_strides hr_decode_v_strides(const hr_decode *decode);

/** Bytes of an element of K and V in the cache, rounded up where a block of them has scales of its own. */
HR_API size_t hr_decode_cache_bytes(const hr_decode *decode);

/** Where the scales of a quantized cache are, as the strides of K say where K is, in floats. Of HR_KV_SCALE_HEAD, page
 *  and token are 0. The problem has passed hr_decode_check(). */
HR_API hr_kv_strides hr_decode_k_scale_strides(const hr_decode *decode);

/** The same of V; with `latent`, those of K. */
HR_API hr_kv_strides hr_decode_v_scale_strides(const hr_decode *decode);

#ifdef __cplusplus
}
#endif
#endif
