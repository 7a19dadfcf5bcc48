/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files of the module: costs of steps, a server, the requests that it gets. */
#ifndef HR_ANALYSIS_LOAD_SIMULATION_H
#define HR_ANALYSIS_LOAD_SIMULATION_H

#include "analysis/serve/plan.h"

#include <headroom/experimental/load.h>

/* ---- costs.c ---- */

#define HR_LOAD_GRID 64
#define HR_LOAD_CONTEXTS 3

/** Times of steps at points of a grid, between which they are interpolated. */
typedef struct hr_load_costs {
  size_t batches, contexts, prefills;
  double batch[HR_LOAD_GRID], context[HR_LOAD_CONTEXTS], decode_ns[HR_LOAD_CONTEXTS][HR_LOAD_GRID];
  double tokens[HR_LOAD_GRID], prefill_ns[HR_LOAD_GRID]; /* of a prefill step without the attention of its prompts */
  double pair_ns;                                        /* attention of a token of a prompt to one before it */
  /* Pipeline stages take turns, so that a step is that of one of them and gives a token to a part of the sequences. A
   * prompt takes `behind` times its step more until it has passed the other stages. */
  double stages, behind[HR_LOAD_GRID];
  const struct hr_load_costs *drafter; /* of a model that makes `drafts` steps before each; NULL: none */
  double drafts;
} hr_load_costs;

/** What a step has to do. Rows are tokens that go through the model's linear layers. */
typedef struct hr_load_step {
  double sequences, context; /* that decode, in whatever stage, and their mean tokens in the cache */
  double rows;               /* of those that decode: one each without speculation */
  double prefill_tokens;     /* of prompts */
  double pairs;              /* of such tokens and the tokens before them */
} hr_load_step;

/** Ends of a band. */
typedef enum hr_load_end { HR_LOAD_PREDICTED, HR_LOAD_LOW, HR_LOAD_HIGH, HR_LOAD_ENDS } hr_load_end;

#define HR_LOAD_TABLES (2 * HR_LOAD_ENDS) /* of the model, and of one that drafts */

/** Predicts the grid for up to `rows` that decode, and for prompts of `prompt` tokens that come to `context` tokens. */
hr_status hr_load_fill_costs(hr_serve_state *state, const hr_serve_layout *layout, int64_t rows, int64_t prompt,
                             int64_t context, hr_load_costs costs[HR_LOAD_ENDS], hr_error *error);

/** Sets the ends to shares of the predicted times. */
void hr_load_scale_ends(hr_load_costs costs[HR_LOAD_ENDS], double low, double high);

/** The time of a step, without the server's own. */
double hr_load_step_ns(const hr_load_costs *costs, const hr_load_step *step);

/** The time from the end of a step to the token of a prompt that it ends: in other pipeline stages. */
double hr_load_behind_ns(const hr_load_costs *costs, const hr_load_step *step);

/* ---- engines.c ---- */

/** Output tokens per second of a server, beyond which its host, which is not simulated, may make requests wait: of 43
 *  rows of such servers 24 have more than twice the simulated time to first token, of 234 others 5. */
#define HR_LOAD_BUSY 6000

/** How an engine orders its steps, and the time that it takes itself. */
typedef struct hr_load_engine {
  bool mixes;         /* a step has prompts and sequences that decode; else prompts go first and the others wait */
  bool splits;        /* prompts are split to fill a step (chunked prefill); else only those beyond a whole step */
  bool decodes_first; /* a prefill leaves the last token of its prompt to a decode step, which gives the first token */
  double output_reserved; /* share of an output for which there has to be room in the cache before a request is taken */
  double step_ns;         /* of the server for each step */
  double sequence_ns;     /* of the server for each sequence of a step */
  double arrival_ns;      /* from a request's arrival until the scheduler sees it */
  double step_low, step_high; /* shares of a predicted step between which nine of ten lie; 0: not known */
  double ttft_low, ttft_high; /* shares of the times to first token that follow */
  double ttft_busy;           /* the high one where a server gives out more than HR_LOAD_BUSY */
} hr_load_engine;

/** What is known of this engine on t such devices. */
hr_load_engine hr_load_engine_of(const hr_hardware *hardware, hr_serve_engine engine, int64_t tensor_parallel);

/* ---- requests.c ---- */

/** A request, its times, and how far the simulation is with it. */
typedef struct hr_load_record {
  double arrival_ns, admitted_ns, first_ns, finish_ns;
  double seen_ns;  /* when the scheduler sees it */
  double ready_ns; /* when its prompt has passed all stages */
  bool handed;     /* its K and V come from another instance */
  int64_t prompt, output;
  int64_t made;                  /* tokens of the output that there are */
  int64_t left;                  /* tokens to prefill */
  int64_t first_step, last_step; /* decode steps before its first, and with its last */
  size_t admission, next;        /* order of admissions; next of its queue */
} hr_load_record;

/** Draws lengths and, but for clients, arrivals. `records` has load->requests. */
void hr_load_fill_requests(const hr_load_options *load, hr_load_record *records);

/* ---- simulate.c, cluster.c ---- */

typedef struct hr_load_server {
  const hr_load_costs *costs;
  hr_load_engine engine;
  int64_t slots, cache_tokens, prefill_tokens; /* cache_tokens 0: no limit */
  int64_t wait_steps;                          /* as in hr_load_options */
  double cached;                               /* share of a prompt that is not prefilled */
  int64_t rows;                                /* of a sequence that decodes, in a step */
  double tokens_per_step;                      /* that it gets */
  bool hands_over;                             /* it prefills alone: others decode */
} hr_load_server;

/** What a simulation counts beside the times of its records. */
typedef struct hr_load_counts {
  double busy_ns;
  int64_t resident_max, preempted;
} hr_load_counts;

/** Instances that get requests in turn. */
typedef struct hr_load_pool {
  const hr_load_server *server;
  size_t instances;
  hr_load_counts counts; /* of all, filled in */
} hr_load_pool;

/** Who prefills and decodes, or with no instances in `decode` prefills alone, and what K and V take on their way. */
typedef struct hr_load_cluster {
  hr_load_pool prefill, decode;
  double transfer_ns, transfer_ns_per_token; /* of the prompt */
  double least_prefill_ns;                   /* no request is handed over sooner after it was sent */
} hr_load_cluster;

/** Serves all requests; `clients` 0: they arrive by themselves. */
hr_status hr_load_simulate(const hr_load_server *server, hr_load_record *records, size_t count, int64_t clients,
                           hr_load_counts *counts, hr_error *error);

/** The same of devices that only prefill, and others that decode. */
hr_status hr_load_simulate_cluster(hr_load_cluster *cluster, hr_load_record *records, size_t count, int64_t clients,
                                   hr_error *error);

/* ---- point.c ---- */

/** A server of this layout, and the times of its steps: HR_LOAD_ENDS tables, HR_LOAD_TABLES where a model drafts. */
hr_status hr_load_fill_server(hr_serve_state *state, const hr_serve_layout *layout, const hr_load_options *load,
                              hr_load_costs *costs, hr_load_server *server, hr_error *error);

/** Sets the point's bands from simulations with steps at their ends. */
void hr_load_set_bands(const hr_load_engine *engine, const hr_load_point *low, const hr_load_point *high,
                       hr_load_point *point);

/** Sets what the point meets of the limits. */
void hr_load_mark_limits(const hr_serve_options *serve, hr_load_point *point);

/** Simulates the load on a layout. `records` has load->requests. */
hr_status hr_load_fill_point(hr_serve_state *state, const hr_serve_layout *layout, const hr_load_options *load,
                             hr_load_record *records, hr_load_point *point, hr_error *error);

/* ---- copies.c ---- */

/** Time of a prompt, and of a token of each of some sequences, where nobody else is served. */
double hr_load_prompt_ns(const hr_load_server *server, double prompt);
double hr_load_decode_ns(const hr_load_server *server, double sequences, double context);

double hr_load_mean_tokens(int64_t least, int64_t most);

/** Whether a request that is alone is within a limit; 0: none. */
bool hr_load_reaches_ttft(const hr_load_server *server, const hr_load_options *load, double limit_ns);
bool hr_load_reaches_tpot(const hr_load_server *server, const hr_load_options *load, double limit_ns);

/** The high share of the engine's times to first token for what was simulated, at least 1. */
double hr_load_ttft_high(const hr_load_engine *engine, const hr_load_point *point);

/** The end of the bands at which limits hold, and the limit of TTFT for what was simulated with steps at that end. */
hr_load_end hr_load_sure_end(const hr_serve_options *serve);
double hr_load_sure_ttft_ns(const hr_serve_options *serve, const hr_load_engine *engine, const hr_load_point *point);

/** Requests per ns, of records with arrivals. */
double hr_load_arrival_rate(const hr_load_options *load, const hr_load_record *records);

/** Simulates so many instances. */
typedef hr_status (*hr_load_trial)(void *context, int64_t instances, bool *enough, hr_error *error);

/** Tries from `begin` on, an eighth more each time, until they are enough or would be more than `most`. */
hr_status hr_load_find_fewest(double begin, int64_t most, hr_load_trial trial, void *context, hr_error *error);

/* ---- apart.c ---- */

/** Instances that prefill. */
typedef struct hr_load_prefill {
  hr_serve_layout layout;
  int64_t instances;
  double network_ns, network_ns_per_token; /* of the prompt, from one of their devices */
  hr_load_server server;
  hr_load_costs costs[HR_LOAD_TABLES];
} hr_load_prefill;

/** Chooses them: the fewest devices that keep up within the limit of TTFT. */
hr_status hr_load_choose_prefill(hr_serve_state *state, const hr_load_options *load, hr_load_record *records,
                                 hr_load_prefill *prefill, hr_error *error);

/** Simulates the load on copies of a layout that decode what `prefill` has prefilled. */
hr_status hr_load_fill_apart(hr_serve_state *state, const hr_serve_layout *layout, const hr_load_options *load,
                             const hr_load_prefill *prefill, hr_load_record *records, hr_load_point *point,
                             hr_error *error);

/* ---- summary.c ---- */

/** Sets the point's figures from the records of a simulation. */
hr_status hr_load_summarize(const hr_load_record *records, size_t count, const hr_load_counts *counts,
                            hr_load_point *point, hr_error *error);

#endif
