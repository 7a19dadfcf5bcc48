/* SPDX-License-Identifier: Apache-2.0 */
/* How many copies are enough, and what a request takes that is alone on one. */
#include "analysis/load/simulation.h"
#include "base/checked.h"
#include "base/error.h"

#include <math.h>

/* ---- requests that are alone ---- */

double hr_load_prompt_ns(const hr_load_server *server, double prompt)
{
  double computed = fmax(prompt * (1 - server->cached), 1);
  const hr_load_step step = {.prefill_tokens = computed, .pairs = computed * (prompt - 0.5 * computed)};
  return hr_load_step_ns(server->costs, &step) + hr_load_behind_ns(server->costs, &step) + server->engine.step_ns;
}

double hr_load_decode_ns(const hr_load_server *server, double sequences, double context)
{
  const hr_load_step step = {.sequences = sequences, .context = context, .rows = sequences * (double)server->rows};
  double turn_ns = hr_load_step_ns(server->costs, &step) + server->engine.step_ns;
  double all_ns = turn_ns * server->costs->stages + server->engine.sequence_ns * sequences;
  return all_ns / server->tokens_per_step;
}

double hr_load_mean_tokens(int64_t least, int64_t most)
{
  return 0.5 * ((double)least + (double)most);
}

bool hr_load_reaches_ttft(const hr_load_server *server, const hr_load_options *load, double limit_ns)
{
  double prompt_ns = hr_load_prompt_ns(server, hr_load_mean_tokens(load->prompt_min, load->prompt_max));
  return limit_ns <= 0 || prompt_ns + server->engine.arrival_ns <= limit_ns;
}

bool hr_load_reaches_tpot(const hr_load_server *server, const hr_load_options *load, double limit_ns)
{
  double context = hr_load_mean_tokens(load->prompt_min, load->prompt_max);
  return limit_ns <= 0 || hr_load_decode_ns(server, 1, context) <= limit_ns;
}

/* ---- limits ---- */

hr_load_end hr_load_sure_end(const hr_serve_options *serve)
{
  return serve->sure > 0 ? HR_LOAD_HIGH : HR_LOAD_PREDICTED;
}

double hr_load_ttft_high(const hr_load_engine *engine, const hr_load_point *point)
{
  const bool sends = point->prefill_instances == 0; /* servers that prefill alone give out no tokens */
  double rate = sends ? point->output_tokens_per_s / (double)hr_max64(point->instances, 1) : 0;
  double high = rate > HR_LOAD_BUSY ? engine->ttft_busy : engine->ttft_high;
  return high > 0 ? high : 1;
}

double hr_load_sure_ttft_ns(const hr_serve_options *serve, const hr_load_engine *engine, const hr_load_point *point)
{
  return serve->ttft_limit_ns / (serve->sure > 0 ? hr_load_ttft_high(engine, point) : 1);
}

/* ---- the search ---- */

#define TRIALS_MAX 64

double hr_load_arrival_rate(const hr_load_options *load, const hr_load_record *records)
{
  double span_ns = records[load->requests - 1].arrival_ns - records[0].arrival_ns;
  return span_ns > 0 ? (double)(load->requests - 1) / span_ns : 0;
}

hr_status hr_load_find_fewest(double begin, int64_t most, hr_load_trial trial, void *context, hr_error *error)
{
  int64_t instances = (int64_t)fmin(fmax(floor(begin), 1), (double)most);
  for (int i = 0; i < TRIALS_MAX; i++) {
    bool enough;
    int64_t more = instances + hr_max64(instances / 8, 1);
    HR_TRY(trial(context, instances, &enough, error));
    if (enough || more > most)
      return HR_OK;
    instances = more;
  }
  return HR_OK;
}
