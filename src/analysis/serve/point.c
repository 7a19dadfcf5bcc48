/* SPDX-License-Identifier: Apache-2.0 */
/* Times and rates of one point. With b sequences in flight, P prompt and O output tokens, prefill time T_p(g) of g
 * prompts and mean decode time T_d, each of the b slots finishes one request in a cycle (docs/serving.md):
 *
 *   cycle = b / g · T_p(g) + (O − 1) · T_d        TTFT = T_p(g)        TPOT = (cycle − TTFT) / (O − 1)
 *
 * Each stage of a pipeline has a part of the b sequences at a time, and T_d is the time until all parts have passed all
 * stages. The prefills of others hold each stage up for the time T_s that the slowest one takes:
 *
 *   cycle = T_p(g) + (b / g − 1) · T_s(g) + (O − 1) · T_d
 *
 * TurboMind's prefill gives no token: a decode step, T_1, gives the first one, and cycle and TTFT have it as well. */
#include "analysis/predict/step.h"
#include "analysis/serve/plan.h"
#include "base/checked.h"
#include "base/error.h"

#include <math.h>

/* Contexts at which a decode step is predicted: the middles of so many equal parts. The time grows almost linearly with
 * the context; tests compare the mean with that of all contexts. */
#define CONTEXTS_PREDICTED 8

/* The parts of a batch are in different stages. Each passes the slowest one before the first has its turn again. */
static void take_turns(int64_t parts, hr_serve_time *time)
{
  double longer = fmax((double)parts * time->stage_share, 1);
  *time = (hr_serve_time){longer * time->ns, longer * time->low_ns, longer * time->high_ns, 1};
}

static hr_status predict(hr_serve_state *state, const hr_serve_layout *layout, hr_phase phase, int64_t batch,
                         int64_t tokens, hr_known_operator *known, hr_serve_time *time, hr_error *error)
{
  hr_workload workload = hr_serve_workload(state, layout, phase, batch);
  const hr_step_about *about = &state->step->about;
  bool decodes = phase == HR_PHASE_DECODE;
  workload.sequence = workload.context = tokens;
  workload.batch = decodes ? hr_serve_stage_batch(state, batch) : batch;
  const hr_subject subject = {.model = state->model, .workload = &workload, .hardware = state->hardware};
  HR_TRY(hr_fill_step_of(&subject, false, known, state->step, error));
  *time = (hr_serve_time){about->time_ns, about->low_ns, about->high_ns, 1};
  if (workload.pipeline_stages == 1)
    return HR_OK;
  time->stage_share = fmin(about->stage_time_ns / about->time_ns, 1);
  if (decodes)
    take_turns(hr_ceil_div(batch, workload.batch), time);
  return HR_OK;
}

hr_status hr_serve_predict(hr_serve_state *state, const hr_serve_layout *layout, hr_phase phase, int64_t batch,
                           int64_t tokens, hr_serve_time *time, hr_error *error)
{
  return predict(state, layout, phase, batch, tokens, NULL, time, error);
}

hr_status hr_serve_mean_decode(hr_serve_state *state, const hr_serve_layout *layout, int64_t batch, hr_serve_time *mean,
                               hr_error *error)
{
  int64_t steps = state->options.output_tokens - 1, first = state->options.prompt_tokens + 1;
  int64_t parts = hr_min64(steps, CONTEXTS_PREDICTED);
  *mean = (hr_serve_time){0};
  for (int64_t i = 0; i < parts; i++) {
    int64_t begin = steps / parts * i + steps % parts * i / parts;
    int64_t end = steps / parts * (i + 1) + steps % parts * (i + 1) / parts;
    hr_serve_time at;
    int64_t context = first + begin + (end - begin - 1) / 2;
    HR_TRY(predict(state, layout, HR_PHASE_DECODE, batch, context, state->known, &at, error));
    double weight = (double)(end - begin) / (double)steps;
    mean->ns += weight * at.ns;
    mean->low_ns += weight * at.low_ns;
    mean->high_ns += weight * at.high_ns;
  }
  return HR_OK;
}

/* What the formulas of docs/serving.md begin with. */
typedef struct point_terms {
  double steps;        /* O − 1 */
  double prefills;     /* b / g: prefill steps of a cycle */
  double stage_share;  /* of a prefill's time for which it holds up others */
  double decode_share; /* 0 if decode steps wait for no prefill */
} point_terms;

/* Prefill steps of a cycle, as multiples of the time of one: all are one after another in a stage. */
static double prefill_turns(const point_terms *terms)
{
  return 1 + (terms->prefills - 1) * terms->stage_share;
}

static double cycle_ns(const point_terms *terms, double prefill_ns, double first_ns, double decode_ns)
{
  return terms->decode_share * prefill_turns(terms) * prefill_ns + first_ns + terms->steps * decode_ns;
}

static double tpot_ns(const point_terms *terms, double prefill_ns, double decode_ns)
{
  if (terms->steps == 0)
    return 0;
  return decode_ns + terms->decode_share * (prefill_turns(terms) - 1) * prefill_ns / terms->steps;
}

/* Rates of one copy of the model, which has `groups` tensor-parallel groups. */
static void set_rates(const hr_serve_state *state, const point_terms *terms, double prefill_ns, double first_ns,
                      hr_serve_point *point)
{
  const hr_serve_options *options = &state->options;
  double output = (double)options->output_tokens, prompt = (double)options->prompt_tokens;
  double turns = options->disaggregated ? terms->prefills * terms->stage_share : prefill_turns(terms);
  double prefill = turns * prefill_ns, decode = first_ns + terms->steps * point->decode_step_ns;
  point->output_tokens_per_s = point->requests_per_s * output;
  point->tokens_per_s = point->requests_per_s * (output + prompt);
  point->prefill_share = prefill / (prefill + decode);
  point->prefill_devices = options->disaggregated ? (double)point->devices * prefill / decode : 0;
  if (state->prefill_layout.devices > 0)
    point->prefill_devices = point->requests_per_s * prefill_ns / 1e9 * (double)state->prefill_layout.devices;
  double devices = (double)point->devices + point->prefill_devices;
  point->output_tokens_per_s_per_device = point->output_tokens_per_s / devices;
  double prefill_price = hr_serve_prefill_price(options);
  double price_per_s =
      (options->price_per_device_hour * (double)point->devices + prefill_price * point->prefill_devices) / 3600;
  bool priced = options->price_per_device_hour > 0;
  point->cost_per_million_output_tokens = priced ? price_per_s / point->output_tokens_per_s * 1e6 : NAN;
  point->cost_per_million_tokens = priced ? price_per_s / point->tokens_per_s * 1e6 : NAN;
}

static bool within(double ns, double limit_ns)
{
  return limit_ns <= 0 || ns <= limit_ns;
}

/* A prefill, and the decode step of its first token; nothing where the prefill gives it. */
static hr_status predict_first(hr_serve_state *state, const hr_serve_layout *layout, int64_t batch, int64_t together,
                               hr_serve_time *prefill, hr_serve_time *first, hr_error *error)
{
  int64_t prompt = state->options.prompt_tokens, decoded = hr_serve_decodes_first(state->options.engine);
  *prefill = *first = (hr_serve_time){.stage_share = 1};
  if (state->prefill_layout.devices > 0)
    *prefill = state->prefill_time;
  if (decoded)
    HR_TRY(hr_serve_predict(state, layout, HR_PHASE_DECODE, batch, prompt, first, error));
  if (prompt == decoded || state->prefill_layout.devices > 0)
    return HR_OK;
  return hr_serve_predict(state, layout, HR_PHASE_PREFILL, together, prompt - decoded, prefill, error);
}

hr_status hr_serve_predict_point(hr_serve_state *state, const hr_serve_layout *layout, int64_t batch,
                                 hr_serve_point *point, hr_error *error)
{
  const hr_serve_options *options = &state->options;
  hr_serve_time prefill, first, decode;
  bool alone = state->prefill_layout.devices > 0; /* each prompt at once */
  int64_t together = alone ? 1 : hr_serve_prefill_batch(options, hr_serve_stage_batch(state, batch));
  HR_TRY(predict_first(state, layout, batch, together, &prefill, &first, error));
  HR_TRY(hr_serve_mean_decode(state, layout, batch, &decode, error));
  const point_terms terms = {.steps = (double)(options->output_tokens - 1),
                             .prefills = (double)batch / (double)together,
                             .stage_share = prefill.stage_share,
                             .decode_share = options->disaggregated ? 0 : 1};
  int64_t groups = hr_serve_groups(layout);
  double in_flight = (double)batch * (double)groups;
  const hr_serve_time prefills = hr_serve_with_band(state, &prefill), firsts = hr_serve_with_band(state, &first),
                      decodes = hr_serve_with_band(state, &decode);
  *point = (hr_serve_point){
      .tensor_parallel = layout->tensor_parallel,
      .expert_parallel = layout->expert_parallel,
      .pipeline_stages = layout->pipeline_stages,
      .devices = layout->devices,
      .batch = batch,
      .prefill_batch = together,
      .ttft_ns = prefill.ns + first.ns,
      .ttft_low_ns = prefill.low_ns + first.low_ns,
      .ttft_high_ns = prefill.high_ns + first.high_ns,
      .tpot_ns = tpot_ns(&terms, prefill.ns, decode.ns),
      .tpot_low_ns = tpot_ns(&terms, prefills.low_ns, decodes.low_ns),
      .tpot_high_ns = tpot_ns(&terms, prefills.high_ns, decodes.high_ns),
      .decode_step_ns = decode.ns,
      .requests_per_s = in_flight / cycle_ns(&terms, prefill.ns, first.ns, decode.ns) * 1e9,
      .requests_per_s_low = in_flight / cycle_ns(&terms, prefills.high_ns, firsts.high_ns, decodes.high_ns) * 1e9,
      .requests_per_s_high = in_flight / cycle_ns(&terms, prefills.low_ns, firsts.low_ns, decodes.low_ns) * 1e9,
      .prefill_tensor_parallel = state->prefill_layout.tensor_parallel,
      .memory_bytes = hr_serve_memory_bytes(state, layout, batch),
  };
  HR_TRY(hr_checked_take(hr_times(hr_checked(batch), groups), &point->sequences));
  point->request_ns = point->ttft_ns + terms.steps * point->tpot_ns;
  point->meets_ttft = within(point->ttft_ns, options->ttft_limit_ns);
  point->meets_tpot = within(point->tpot_ns, options->tpot_limit_ns);
  point->band_meets_ttft = within(point->ttft_high_ns, options->ttft_limit_ns);
  point->band_meets_tpot = within(point->tpot_high_ns, options->tpot_limit_ns);
  point->meets_limits =
      options->sure > 0 ? point->band_meets_ttft && point->band_meets_tpot : point->meets_ttft && point->meets_tpot;
  set_rates(state, &terms, prefill.ns, first.ns, point);
  return HR_OK;
}
