/* SPDX-License-Identifier: Apache-2.0 */
/* The routed experts of a layer as one call: the sum of their operators. */
#include "analysis/predict/servers.h"
#include "analysis/predict/terms.h"
#include "base/checked.h"
#include "base/error.h"
#include "base/struct_size.h"

#include <headroom/experimental/predict.h>
#include <math.h>

#define LARGEST_SIZE ((int64_t)1 << 24)
#define ROWS_MAX ((int64_t)1 << 38)

void hr_expert_call_init(hr_expert_call *call, size_t size)
{
  HR_INIT(call, size, (hr_expert_call){.dtype = HR_BF16, .gated = true});
}

static hr_status check_call(const hr_expert_call *call, hr_error *error)
{
  const struct {
    const char *name;
    int64_t value, most;
  } sizes[] = {{"tokens", call->tokens, LARGEST_SIZE},
               {"rows", call->rows, ROWS_MAX},
               {"hidden", call->hidden, LARGEST_SIZE},
               {"width", call->width, LARGEST_SIZE},
               {"experts", call->experts, LARGEST_SIZE}};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    if (sizes[i].value < 1 || sizes[i].value > sizes[i].most)
      return hr_fail(error, HR_ERROR_INVALID, "%s: expected 1 to %lld, found %lld", sizes[i].name,
                     (long long)sizes[i].most, (long long)sizes[i].value);
  }
  if (call->top_k < 0 || call->top_k > LARGEST_SIZE)
    return hr_fail(error, HR_ERROR_INVALID, "top_k: expected 0 to %lld, found %lld", (long long)LARGEST_SIZE,
                   (long long)call->top_k);
  if ((unsigned)call->kernels > HR_EXPERTS_TRITON)
    return hr_fail(error, HR_ERROR_INVALID, "kernels: %d is none of a server's", (int)call->kernels);
  if ((unsigned)call->dtype >= HR_DTYPE_COUNT)
    return hr_fail(error, HR_ERROR_INVALID, "dtype: %d is not a number format", (int)call->dtype);
  return HR_OK;
}

/* Bytes of rows that are read or written so many times. */
static int64_t moved(const hr_expert_call *call, int64_t columns, int64_t rows)
{
  return columns * rows * (int64_t)hr_dtype_bytes(call->dtype);
}

static hr_operator around(hr_operator_id id, int64_t bytes)
{
  return (hr_operator){.id = id, .kind = HR_KIND_MEMORY, .count = 1, .bytes = bytes};
}

static hr_activations activations_of(const hr_expert_call *call)
{
  return hr_dtype_bytes(call->dtype) == 1 ? HR_ACTIVATIONS_FP8 : HR_ACTIVATIONS_UNQUANTIZED;
}

static hr_operator grouped(const hr_expert_call *call, hr_operator_id id, int64_t outputs, int64_t inputs)
{
  hr_operator op = {.id = id, .kind = HR_KIND_GROUPED_GEMM, .count = 1, .gemm = hr_gemm_default(), .rows = call->rows};
  op.activations = activations_of(call);
  op.gemm.dtype = call->dtype, op.gemm.transpose_b = true;
  op.gemm.batch = hr_min64(call->experts, call->rows);
  op.gemm.m = hr_ceil_div(call->rows, op.gemm.batch), op.gemm.n = outputs, op.gemm.k = inputs;
  op.flops = (int64_t)fmin(2.0 * (double)call->rows * (double)outputs * (double)inputs, 0x1p62);
  op.bytes = moved(call, outputs + inputs, call->rows) + moved(call, outputs, inputs * op.gemm.batch);
  return op;
}

/* The weights of all experts that have rows, with their rows: what calls in a row may find in the last-level cache. */
static double all_bytes(const hr_expert_call *call)
{
  double matrices = call->gated ? 3 : 2, experts = (double)hr_min64(call->experts, call->rows);
  double hidden = (double)call->hidden, width = (double)call->width;
  double elements = matrices * experts * hidden * width + (double)call->rows * (2 * hidden + matrices * width);
  return elements * (double)hr_dtype_bytes(call->dtype);
}

/* The device whose costs of a server are those of the kernels of the call. */
static const hr_hardware *device_of(const hr_hardware *hardware, const hr_expert_call *call, hr_framework framework,
                                    hr_hardware *other)
{
  const hr_server_cost *server = hr_server_cost_of(hardware, framework);
  if (!server || call->kernels == HR_EXPERTS_USUAL)
    return hardware;
  const bool cutlass = call->kernels == HR_EXPERTS_CUTLASS;
  const hr_expert_cost *cost = cutlass ? &server->experts_cutlass : &server->experts_triton;
  if (!(cost->routing_ns > 0))
    return hardware;
  hr_server_cost own = *server;
  own.experts = *cost, own.experts_8bit = (hr_expert_cost){0};
  *other = *hardware;
  hr_set_server_cost(other, framework, &own);
  return other;
}

static void add(const hr_prediction *p, hr_prediction *sum)
{
  sum->time_ns += p->time_ns, sum->low_ns += p->low_ns, sum->high_ns += p->high_ns;
  sum->matrix_ns += p->matrix_ns, sum->tile_ns += p->tile_ns, sum->wave_ns += p->wave_ns;
  sum->alignment_ns += p->alignment_ns, sum->memory_ns += p->memory_ns, sum->launch_ns += p->launch_ns;
  sum->pair_ns += p->pair_ns, sum->reduction_ns += p->reduction_ns, sum->clock_ns += p->clock_ns;
  sum->exposed_ns += p->exposed_ns, sum->rounding_ns += p->rounding_ns;
}

hr_status hr_predict_experts(const hr_hardware *hardware, const hr_expert_call *call, hr_framework framework,
                             hr_prediction *prediction, hr_error *error)
{
  HR_NEED(error, hardware, call, prediction);
  HR_TAKE(hr_expert_call, call, error);
  HR_TRY(check_call(call, error));
  HR_TRY(hr_predict_check_framework(framework, error));
  int64_t inputs = call->gated ? 2 : 1, sent = moved(call, call->hidden, call->rows);
  hr_operator operators[] = {
      around(HR_OP_DISPATCH, moved(call, call->hidden, call->tokens) + sent),
      grouped(call, HR_OP_EXPERT_UP, call->width, call->hidden),
      grouped(call, HR_OP_EXPERT_GATE, call->width, call->hidden),
      around(HR_OP_EXPERT_ACTIVATION, moved(call, call->width * (inputs + 1), call->rows)),
      grouped(call, HR_OP_EXPERT_DOWN, call->hidden, call->width),
      around(HR_OP_COMBINE, sent + moved(call, call->hidden, call->tokens)),
  };
  const int64_t top_k = call->top_k > 0 ? call->top_k : hr_ceil_div(call->rows, call->tokens);
  hr_hardware other, cold;
  hardware = device_of(hardware, call, framework, &other);
  if (hardware->about.cache == HR_CACHE_WARM && !hr_is_cached(hardware, all_bytes(call))) {
    cold = *hardware, cold.about.cache = HR_CACHE_COLD;
    hardware = &cold;
  }
  hr_prediction sum = {0}, one;
  double flops = 0;
  for (size_t i = 0; i < sizeof operators / sizeof *operators; i++) {
    hr_operator *op = &operators[i];
    if (op->id == HR_OP_EXPERT_GATE && !call->gated)
      continue;
    op->framework = framework;
    if (op->kind == HR_KIND_MEMORY) {
      op->activations = activations_of(call), op->copies = top_k, op->rows = call->rows, op->columns = call->hidden;
      op->chosen = call->tokens * top_k; /* of which rows are this device's; all of them if top_k is not known */
      if (op->id != HR_OP_DISPATCH)
        op->chosen = call->top_k > 0 ? hr_max64(0, op->chosen - call->rows) : 0;
    }
    HR_TRY(hr_predict_operator(hardware, op, &one, error));
    add(&one, &sum);
    flops += (double)op->flops;
  }
  hr_prediction_finish(hardware, sum.time_ns - sum.launch_ns, flops, hr_predict_peak(hardware, call->dtype), &sum);
  hr_prediction_set_interval(hardware, HR_INTERVAL_EXPERTS, HR_DTYPE_COUNT, &sum);
  *prediction = sum;
  return HR_OK;
}
