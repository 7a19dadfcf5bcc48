/* SPDX-License-Identifier: Apache-2.0 */
/* The time of attention whose keys may be split: of one or a few queries per sequence. */
#include "analysis/predict/servers.h"
#include "analysis/predict/terms.h"
#include "hardware/hardware.h"

#include <math.h>

#define SHARED_MIN 49152   /* bytes of a multiprocessor, with which any head has room */
#define UNSPLIT_ROWS 64.0  /* query heads, and keys that cost nothing more, of a block that does not split keys */
#define UNSPLIT_KEYS 128.0 /* that one block reads: more are split where multiprocessors are idle */

static double bandwidth_share(const hr_hardware *hardware, const hr_decode_cost *cost, const hr_split_kv *call)
{
  double share = cost->bandwidth_share > 0 ? cost->bandwidth_share : hardware->bandwidth_share;
  return call->rows <= 1 && cost->one_head_share > 0 ? share * cost->one_head_share : share;
}

const hr_decode_cost *hr_predict_decode_cost(const hr_hardware *hardware, hr_framework framework, bool latent, bool fp8)
{
  if (latent && framework != HR_FRAMEWORK_HEADROOM && hardware->decode_latent.launch_ns > 0)
    return &hardware->decode_latent;
  if (latent && framework == HR_FRAMEWORK_HEADROOM && hardware->decode_latent_headroom.launch_ns > 0)
    return &hardware->decode_latent_headroom;
  if (fp8 && framework != HR_FRAMEWORK_HEADROOM && hardware->decode_fp8.launch_ns > 0)
    return &hardware->decode_fp8;
  const hr_server_cost *server = hr_server_cost_of(hardware, framework);
  if (server && server->decode.launch_ns > 0)
    return &server->decode;
  bool own = framework == HR_FRAMEWORK_HEADROOM && hardware->decode_headroom.launch_ns > 0;
  return own ? &hardware->decode_headroom : &hardware->decode_framework;
}

double hr_predict_split_kv(const hr_hardware *hardware, const hr_decode_cost *cost, const hr_split_kv *call,
                           hr_prediction *p)
{
  double slots = (double)hardware->multiprocessors;
  p->launch_ns = fmax(cost->launch_ns, hardware->launch_ns);
  if (call->decode && cost->wave_ns > 0 && hardware->shared_bytes >= SHARED_MIN)
    return hr_predict_decode_blocks(hardware, cost, call, p);
  /* Where blocks are known, bandwidth_share is what they reach before their latencies. */
  p->memory_ns = hr_reread_ns(hardware, call->bytes, cost->wave_ns > 0 ? 0 : bandwidth_share(hardware, cost, call));
  p->pair_ns = call->pairs / slots * (cost->pair_ns + cost->element_ns * call->head_dim);
  if (cost->key_ns > 0)
    p->pair_ns +=
        ceil(call->pairs * ceil(call->rows / UNSPLIT_ROWS) / slots) * fmax(0, call->keys - UNSPLIT_ROWS) * cost->key_ns;
  p->split_ns = cost->split_ns * fmax(0, log2(call->keys / UNSPLIT_KEYS)) * fmax(0, 1 - call->pairs / slots);
  return hr_overlap(hr_overlap(call->compute_ns, p->memory_ns), p->pair_ns) + p->split_ns;
}
