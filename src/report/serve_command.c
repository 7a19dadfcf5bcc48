/* SPDX-License-Identifier: Apache-2.0 */
/* The command lines that start servers with a plan. */
#include "analysis/serve/plan.h"
#include "base/error.h"
#include "base/quantity.h"
#include "base/struct_size.h"
#include "base/text.h"
#include "report/document.h"
#include "report/lines.h"
#include "report/serve_router.h"
#include "report/serve_servers.h"

#include <headroom/experimental/report.h>
#include <headroom/experimental/serve.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

/* A word of a shell's command line. */
static void write_word(FILE *out, const char *word)
{
  static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./@:+=-";
  if (word[0] && word[0] != '-' && strspn(word, plain) == strlen(word)) {
    fputs(word, out);
    return;
  }
  fputc('\'', out);
  for (; *word; word++)
    fputs(*word == '\'' ? "'\\''" : (const char[]){*word, '\0'}, out);
  fputc('\'', out);
}

/* ---- how many ---- */

static const hr_serve_fleet *fleet_of(const hr_serve_result *plan, const hr_serve_point *point)
{
  return plan->fleet_count > 0 && plan->fleets[0].point == point ? &plan->fleets[0] : NULL;
}

/* Servers that carry the load, or without one those that prefill for one that decodes. */
typedef struct server_counts {
  int64_t prefilling, decoding;
} server_counts;

static server_counts count_servers(const hr_serve_result *plan, const hr_served *decodes)
{
  hr_served prefills = *decodes;
  prefills.role = HR_PREFILLS;
  const hr_serve_fleet *fleet = fleet_of(plan, decodes->point);
  if (fleet)
    return (server_counts){fleet->prefill_instances, fleet->instances};
  return (server_counts){(int64_t)ceil(decodes->point->prefill_devices / (double)hr_served_devices(&prefills)), 1};
}

static void write_load(FILE *out, const hr_serve_result *plan, const hr_serve_fleet *fleet)
{
  char load[HR_NUMBER_SIZE], rate[HR_NUMBER_SIZE];
  hr_write_share(load, sizeof load, fleet->load_share);
  hr_write_text(rate, sizeof rate, "%.3g", plan->options.recommend);
  fprintf(out, " on %" PRId64 " devices for %s requests/s, %s of what they carry", fleet->devices, rate, load);
}

static void write_comments(FILE *out, const hr_serve_result *plan, const hr_served *of)
{
  char ttft[HR_NUMBER_SIZE], tpot[HR_NUMBER_SIZE];
  const hr_serve_point *point = of->point;
  const hr_serve_fleet *fleet = fleet_of(plan, point);
  const server_counts counts = count_servers(plan, of);
  hr_write_time(ttft, sizeof ttft, point->ttft_ns);
  hr_write_time(tpot, sizeof tpot, point->tpot_ns);
  fprintf(out, "# %" PRId64 " device%s, %" PRId64 " sequences: TTFT %s, TPOT %s predicted\n", point->devices,
          hr_plural(point->devices), point->sequences, ttft, tpot);
  if (plan->options.disaggregated)
    fprintf(out, "# %" PRId64 " that prefill%s and %" PRId64 " that decode%s", counts.prefilling,
            counts.prefilling == 1 ? "s" : "", counts.decoding, counts.decoding == 1 ? "s" : "");
  else if (fleet)
    fprintf(out, "# %" PRId64 " of these", fleet->instances);
  if (fleet)
    write_load(out, plan, fleet);
  if (fleet || plan->options.disaggregated)
    fputc('\n', out);
}

/* ---- the lines ---- */

static void write_command(FILE *out, const hr_server *server, const hr_served *of, const char *name)
{
  if (of->role != HR_SERVES_ALL)
    fputs(server->environment, out);
  fprintf(out, "%s ", server->begin);
  write_word(out, name);
  for (const hr_server_option *option = server->options; option->name; option++) {
    char value[HR_SERVER_VALUE_SIZE];
    if (option->write(of, value))
      fprintf(out, " \\\n  %s%s%s", option->name, value[0] ? " " : "", value);
  }
  fputc('\n', out);
}

static void write_role(FILE *out, const hr_server *server, const hr_served *of, const char *name)
{
  const bool prefills = of->role == HR_PREFILLS;
  const hr_hardware *other = prefills ? of->options->prefill_hardware : NULL;
  fprintf(out, "\n# on each host that %s, with %" PRId64 " device%s%s%s\n", prefills ? "prefills" : "decodes",
          hr_served_devices(of), hr_plural(hr_served_devices(of)), other ? " of " : "",
          other ? hr_hardware_describe(other)->name : "");
  if (of->options->engine == HR_SERVE_TRTLLM)
    hr_write_transfer_file(out, of->options->prompt_tokens, prefills);
  write_command(out, server, of, name);
}

static void write_roles(FILE *out, const hr_server *server, const hr_serve_result *plan, const hr_served *decodes,
                        const hr_hardware *hardware, const char *name)
{
  const hr_serve_options options = hr_serve_prefill_options(decodes->options, hardware);
  hr_served prefills = *decodes;
  prefills.role = HR_PREFILLS, prefills.options = &options;
  const server_counts counts = count_servers(plan, decodes);
  write_role(out, server, &prefills, name);
  write_role(out, server, decodes, name);
  fprintf(out, "\n# the router%s, where these are the hosts\n",
          plan->options.engine == HR_SERVE_VLLM ? ", in a checkout of vLLM" : "");
  hr_write_router(out, plan->options.engine, counts.prefilling, counts.decoding);
}

static hr_status check_command(const hr_serve_result *plan, const hr_served *of, hr_error *error)
{
  const char *engine = hr_serve_engine_name(plan->options.engine);
  const hr_server *server = hr_server_of(plan->options.engine);
  if (!server)
    return hr_fail(error, HR_ERROR_UNSUPPORTED, "%s: the options of this server are not known", engine);
  for (const hr_server_refusal *refused = server->refusals; refused->meant; refused++) {
    if (refused->meant(of))
      return hr_fail(error, HR_ERROR_UNSUPPORTED, "the command line of %s cannot express this plan: %s", engine,
                     refused->why);
  }
  const server_counts counts = count_servers(plan, of);
  if (plan->options.disaggregated && counts.prefilling + counts.decoding > HR_ROUTED_MAX)
    return hr_fail(error, HR_ERROR_UNSUPPORTED,
                   "--emit: %" PRId64 " servers, more than the %d that a router's line lists",
                   counts.prefilling + counts.decoding, HR_ROUTED_MAX);
  return HR_OK;
}

hr_status hr_report_serve_command(FILE *out, const hr_subject *subject, const hr_serve_result *plan,
                                  const hr_serve_point *point, const char *name, hr_error *error)
{
  HR_NEED(error, out, subject, plan, point, name);
  HR_NEED(error, subject->model, subject->workload, subject->hardware);
  const bool apart = plan->options.disaggregated;
  const hr_server *server = hr_server_of(plan->options.engine);
  const hr_served of = {subject->model, subject->workload, &plan->options, point, apart ? HR_DECODES : HR_SERVES_ALL};
  HR_TRY(check_command(plan, &of, error));
  write_comments(out, plan, &of);
  if (apart)
    write_roles(out, server, plan, &of, subject->hardware, name);
  else
    write_command(out, server, &of, name);
  const hr_report_options options = hr_report_options_default();
  hr_document document;
  hr_document_begin(&document, out, &options);
  return hr_document_end(&document, HR_OK, error);
}
