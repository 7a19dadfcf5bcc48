/* SPDX-License-Identifier: Apache-2.0 */
/* A scan or a short convolution as one call: its operator. */
#include "base/checked.h"
#include "base/error.h"
#include "base/struct_size.h"
#include "model/layers/scan_counts.h"

#include <headroom/experimental/predict.h>
#include <inttypes.h>

void hr_scan_call_init(hr_scan_call *call, size_t size)
{
  HR_INIT(call, size, (hr_scan_call){.dtype = HR_BF16, .recurrence = HR_RECURRENCE_SSD, .batch = 1});
}

static hr_status check_call(const hr_scan_call *call, hr_error *error)
{
  if (call->recurrence == HR_RECURRENCE_NONE || (unsigned)call->recurrence > HR_RECURRENCE_KIMI_DELTA)
    return hr_fail(error, HR_ERROR_INVALID, "recurrence: %d is not a recurrence", (int)call->recurrence);
  bool keys = call->recurrence != HR_RECURRENCE_RG_LRU && call->recurrence != HR_RECURRENCE_CONVOLUTION;
  const struct {
    const char *name;
    int64_t value, least;
  } sizes[] = {{"batch", call->batch, 1},       {"tokens", call->tokens, 1},    {"heads", call->heads, 1},
               {"head_dim", call->head_dim, 1}, {"groups", call->groups, keys}, {"state", call->state, 1},
               {"chunk", call->chunk, 0}};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    if (sizes[i].value < sizes[i].least)
      return hr_fail(error, HR_ERROR_INVALID, "%s: expected at least %" PRId64 ", found %" PRId64, sizes[i].name,
                     sizes[i].least, sizes[i].value);
  }
  if ((unsigned)call->dtype >= HR_DTYPE_COUNT)
    return hr_fail(error, HR_ERROR_INVALID, "dtype: %d is not a number format", (int)call->dtype);
  return HR_OK;
}

/* Counted as the operator of a mixer. The convolution is that before an RG-LRU's scan, of all channels and without
 * gates; Mamba-2's norm applies the gate behind the scan. */
static hr_mixer_scan mixer_of(const hr_scan_call *call)
{
  bool convolution = call->recurrence == HR_RECURRENCE_CONVOLUTION;
  return (hr_mixer_scan){.recurrence = convolution ? HR_RECURRENCE_RG_LRU : call->recurrence,
                         .heads = call->heads,
                         .head_dim = call->head_dim,
                         .groups = call->groups,
                         .state = call->state,
                         .kernel = convolution ? call->state : 0,
                         .chunk = convolution ? 0 : call->chunk,
                         .norm = true};
}

hr_status hr_predict_scan(const hr_hardware *hardware, const hr_scan_call *call, hr_prediction *prediction,
                          hr_error *error)
{
  HR_NEED(error, hardware, call, prediction);
  HR_TAKE(hr_scan_call, call, error);
  HR_TRY(check_call(call, error));
  hr_operator op = {.id = HR_OP_SCAN, .kind = HR_KIND_SCAN, .count = 1, .gemm = hr_gemm_default()};
  op.gemm.dtype = call->dtype, op.recurrence = call->recurrence, op.updates = call->updates;
  const hr_mixer_scan mixer = mixer_of(call);
  const hr_scan_counts counts = call->recurrence == HR_RECURRENCE_CONVOLUTION
                                    ? hr_count_convolution(&mixer, call->dtype)
                                    : hr_count_scan(&mixer, call->tokens, call->updates);
  hr_checked64 rows = hr_times(hr_checked(call->batch), call->tokens);
  hr_checked64 flops = hr_times(counts.flops, rows.value),
               moved = hr_times(hr_plus(counts.inputs, counts.outputs), rows.value);
  hr_checked64 states = hr_times(hr_times(counts.state_bytes, call->batch), call->updates ? 2 : 1);
  hr_checked64 bytes = hr_plus(hr_times(moved, (int64_t)hr_dtype_bytes(call->dtype)), states);
  int64_t chunks = hr_scan_chunks(&mixer, call->tokens, call->updates);
  hr_checked64 between = hr_times(hr_times(counts.chunk_bytes, call->batch), chunks);
  op.sequence = call->tokens;
  if (rows.overflow || hr_checked_take(flops, &op.flops) != HR_OK || hr_checked_take(bytes, &op.bytes) != HR_OK ||
      hr_checked_take(hr_plus(bytes, between), &op.moved_bytes) != HR_OK)
    return hr_fail(error, HR_ERROR_OVERFLOW, "the scan is too large to count");
  return hr_predict_operator(hardware, &op, prediction, error);
}
