/* SPDX-License-Identifier: Apache-2.0 */
/* A server under a load: requests that arrive by a rate, a trace or from clients, simulated over predicted steps.
 * docs/serving.md explains the model. Thread safety: an hr_load_result belongs to one caller. */
#ifndef HEADROOM_EXPERIMENTAL_LOAD_H
#define HEADROOM_EXPERIMENTAL_LOAD_H

#include <headroom/input.h>
#include <headroom/serve.h>

#ifdef __cplusplus
extern "C" {
#endif

#define HR_LOAD_REQUESTS_MAX ((int64_t)1000000)
#define HR_LOAD_TOKENS_MAX ((int64_t)1 << 24)    /* of a prompt, and of an output */
#define HR_LOAD_SEQUENCES_MAX ((int64_t)1 << 16) /* in flight */
#define HR_LOAD_DRAFT_MAX ((int64_t)64)
#define HR_LOAD_INSTANCES_MAX 512
#define HR_LOAD_INTERVALS 10

/** A request of a trace. */
typedef struct hr_load_request {
  double arrival_ns;
  int64_t prompt, output; /* tokens */
} hr_load_request;

/** Who sends requests: exactly one of rate_per_s, clients and trace. */
typedef struct hr_load_options {
  size_t struct_size; /* sizeof(hr_load_options), set by hr_load_options_default() */
  double rate_per_s;  /* requests arrive at random (Poisson); 0: not so */
  int64_t clients;    /* each sends its next request when the last one ends, the first ones at once; 0: not so */
  const hr_load_request *trace; /* ascending arrivals; NULL: not so */
  size_t trace_count;
  int64_t requests; /* how many are simulated, but for a trace; default 10 for each client, a minute or more of a rate
                       where the fewest copies are searched for, at least 1000; 0: that */
  int64_t prompt_min, prompt_max; /* uniform between them; 0: prompt_tokens of the plan, and prompt_min */
  int64_t output_min, output_max; /* in the same way */
  double cached;                  /* share of each prompt whose K and V are in a prefix cache; 0 … below 1 */
  double accept;                  /* speculation: probability that a drafted token is accepted; 0 … 1 */
  int64_t draft;                  /* tokens drafted for a step; 0: no speculation */
  int64_t
      wait_steps; /* decode steps that prompts wait for one another until prefill_tokens are nearly full; default 0 */
  uint64_t seed;  /* of arrivals and lengths */
  int64_t instances, prefill_instances; /* copies, which get requests in turn, and disaggregated those that prefill; 0:
                                           the fewest that keep up within the limits, of clients 1; default 1 */
  const hr_model
      *draft_model; /* that drafts, on the same devices, whose memory and time it takes: of as many as share its
                              heads, else of one; disaggregated on both kinds, prefilled where prompts are; the caller
                              keeps it while results are used; NULL: at no cost */
} hr_load_options;

/** The defaults above: nobody sends, seed 1, one copy. */
HR_API void hr_load_options_init(hr_load_options *options, size_t size);
HR_DEFAULT(hr_load_options)

/** What of all requests half, 90 and 99% do not exceed, and their mean. */
typedef struct hr_load_quantiles {
  double mean, p50, p90, p99;
} hr_load_quantiles;

/** A part of the simulation's time. */
typedef struct hr_load_interval {
  double begin_ns, end_ns;
  int64_t arrivals;
  double waiting, resident; /* requests, on average */
  double output_tokens_per_s;
} hr_load_interval;

/** One layout under the load. */
typedef struct hr_load_point {
  int64_t tensor_parallel, expert_parallel, devices;
  hr_load_quantiles ttft_ns;    /* from the arrival to the first token */
  hr_load_quantiles tpot_ns;    /* time per output token after the first; NAN if each request has but one token */
  hr_load_quantiles queue_ns;   /* from the arrival until the prefill may begin */
  hr_load_quantiles request_ns; /* from the arrival to the last token */
  double resident_mean;         /* requests in the batch, prompts included, over the time of the simulation */
  int64_t resident_max;
  int64_t slots;         /* most requests in the batches of all groups, as the engine or --batch limits each */
  int64_t preempted;     /* times that a request lost its cache to others and was computed again */
  double requests_per_s; /* finished over the time of the simulation */
  double output_tokens_per_s;
  double cost_per_million_output_tokens; /* NAN without a price */
  double busy_share;                     /* of the time in which a step runs */
  double duration_ns;                    /* until the last token */
  bool keeps_up; /* as many requests end as arrive, in the second half of the arrivals, and waits do not grow */
  bool meets_ttft, meets_tpot; /* nine requests of ten are within the limit, or there is none */
  /* Where nine of ten servers lie. Steps take the low, then the high end of their band; queues follow. */
  hr_load_quantiles ttft_low_ns, ttft_high_ns, tpot_low_ns, tpot_high_ns;
  double output_tokens_per_s_low, output_tokens_per_s_high;
  bool band_meets_ttft, band_meets_tpot, band_keeps_up; /* also at the band's high end */
  hr_load_interval timeline[HR_LOAD_INTERVALS];         /* equally long */
  int64_t pipeline_stages;
  int64_t instances; /* copies; `devices`, rates and the batch are of all */
  int64_t prefill_instances,
      prefill_tensor_parallel; /* disaggregated: further ones, which the batch leaves out; else 0 */
  double prefill_busy_share;   /* of the time of an instance that prefills */
} hr_load_point;

typedef struct hr_load_result {
  hr_serve_options serve; /* as hr_serve_plan() filled them in */
  hr_load_options load;   /* with requests and lengths filled in; trace is NULL */

  size_t count;
  hr_load_point *points;      /* of each layout that fits, ascending devices; owned by the result */
  const hr_load_point *best;  /* fewest devices that keep up and meet the limits, with serve.sure at the high end of
                                 the bands; of these the most tokens/s; NULL: none */
  const hr_load_point *shown; /* best, or the one with the most tokens/s; NULL: none fits */
} hr_load_result;

/** Simulates the load on every layout that hr_serve_plan() with `serve` would list and that fits. With e above t the
 *  tensor-parallel groups get requests in turn, and one of them stands for all.
 *  `serve->engine` gives the order of prefill and decode and the server's own time. The same seed gives the same
 *  result. Copies get requests in turn. Disaggregated, K and V travel over the network of both devices. On HR_OK the
 *  caller owns *result and frees it with hr_load_result_free(). Errors: HR_ERROR_INVALID naming the member of the
 *  options, those of hr_serve_plan(). */
HR_API hr_status hr_serve_load(const hr_subject *subject, const hr_serve_options *serve, const hr_load_options *load,
                               hr_load_result **result, hr_error *error);

/** Reads a trace, a CSV table with columns arrival_s (ascending seconds), prompt and output (tokens). On HR_OK the
 *  caller frees *requests with hr_load_trace_free(). HR_ERROR_INVALID and HR_ERROR_UNREADABLE with the line and column,
 *  HR_ERROR_OUT_OF_MEMORY. */
HR_API hr_status hr_load_trace_parse(const hr_input *input, hr_load_request **requests, size_t *count, hr_error *error);

/** The same of a file of at most 16 MiB; "-" is standard input. Also HR_ERROR_NOT_FOUND. */
HR_API hr_status hr_load_trace_file(const char *path, hr_load_request **requests, size_t *count, hr_error *error);

/** Frees a trace; NULL is allowed. */
HR_API void hr_load_trace_free(hr_load_request *requests);

/** Frees a result; NULL is allowed. */
HR_API void hr_load_result_free(hr_load_result *result);

#ifdef __cplusplus
}
#endif
#endif
