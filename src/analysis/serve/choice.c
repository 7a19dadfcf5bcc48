/* SPDX-License-Identifier: Apache-2.0 */
/* Which points are on the Pareto front, and which one is best for what. */
#include "analysis/serve/plan.h"

#include <math.h>

/* The latency that the front weighs against throughput; less is better. */
static double latency(const hr_serve_result *result, const hr_serve_point *point)
{
  return result->options.output_tokens > 1 ? point->tpot_ns : point->ttft_ns;
}

static bool dominates(const hr_serve_result *result, const hr_serve_point *a, const hr_serve_point *b)
{
  double a_ns = latency(result, a), b_ns = latency(result, b);
  double a_rate = a->output_tokens_per_s_per_device, b_rate = b->output_tokens_per_s_per_device;
  return a_ns <= b_ns && a_rate >= b_rate && (a_ns < b_ns || a_rate > b_rate);
}

static void mark_front(hr_serve_result *result, bool any_meets)
{
  for (size_t i = 0; i < result->count; i++) {
    hr_serve_point *point = &result->points[i];
    point->pareto = !any_meets || point->meets_limits;
    for (size_t k = 0; k < result->count && point->pareto; k++) {
      const hr_serve_point *other = &result->points[k];
      point->pareto = (any_meets && !other->meets_limits) || !dominates(result, other, point);
    }
  }
}

/* Each returns what is least for the best point. */
static double request_time(const hr_serve_options *options, const hr_serve_point *point)
{
  (void)options;
  return point->request_ns;
}

static double less_throughput(const hr_serve_options *options, const hr_serve_point *point)
{
  (void)options;
  return -point->output_tokens_per_s;
}

static double less_per_device(const hr_serve_options *options, const hr_serve_point *point)
{
  (void)options;
  return -point->output_tokens_per_s_per_device;
}

/* Time over limit, of the limit that is exceeded more. */
static double excess(const hr_serve_options *options, const hr_serve_point *point)
{
  double ttft_ns = options->sure > 0 ? point->ttft_high_ns : point->ttft_ns;
  double tpot_ns = options->sure > 0 ? point->tpot_high_ns : point->tpot_ns;
  double ttft = options->ttft_limit_ns > 0 ? ttft_ns / options->ttft_limit_ns : 0;
  double tpot = options->tpot_limit_ns > 0 ? tpot_ns / options->tpot_limit_ns : 0;
  return fmax(ttft, tpot);
}

/* The first of equals has fewest devices and the smallest batch, as points are sorted by both. */
static const hr_serve_point *least(const hr_serve_result *result, bool met,
                                   double (*figure)(const hr_serve_options *, const hr_serve_point *))
{
  const hr_serve_point *best = NULL;
  for (size_t i = 0; i < result->count; i++) {
    const hr_serve_point *point = &result->points[i];
    if (point->meets_limits == met && (!best || figure(&result->options, point) < figure(&result->options, best)))
      best = point;
  }
  return best;
}

void hr_serve_choose(hr_serve_result *result)
{
  result->latency = least(result, true, request_time);
  result->throughput = least(result, true, less_throughput);
  result->cheapest = least(result, true, less_per_device);
  result->nearest = result->latency ? NULL : least(result, false, excess);
  mark_front(result, result->latency != NULL);
}
