/* SPDX-License-Identifier: Apache-2.0 */
/* A trace of requests from a CSV table. */
#include "analysis/load/simulation.h"
#include "base/error.h"
#include "base/text.h"
#include "csv/csv.h"

#include <inttypes.h>
#include <stdlib.h>

typedef struct trace {
  hr_load_request *requests;
  size_t count, room;
} trace;

static hr_status wrong(const hr_csv_record *record, const char *column, const char *expected)
{
  const char *found = hr_csv_field(record, column);
  return hr_fail(record->error, HR_ERROR_INVALID, "%s: line %" PRId64 ": %s: expected %s, found \"%.40s\"",
                 record->name, record->line, column, expected, found ? found : "");
}

/* Seconds, not before those of the request before. */
static hr_status read_arrival(const hr_csv_record *record, double least_ns, double *arrival_ns)
{
  char *end = NULL;
  const char *text = hr_csv_field(record, "arrival_s");
  double seconds = text ? hr_read_number(text, &end) : -1;
  if (!text || end == text || *end || !(seconds >= 0 && seconds <= 1e9))
    return wrong(record, "arrival_s", "seconds from 0 on");
  *arrival_ns = seconds * 1e9;
  return *arrival_ns >= least_ns ? HR_OK : wrong(record, "arrival_s", "an arrival that is not before the one above it");
}

static hr_status read_tokens(const hr_csv_record *record, const char *column, int64_t *tokens)
{
  HR_TRY(hr_csv_integer(record, column, 1, 0, tokens));
  return *tokens <= HR_LOAD_TOKENS_MAX ? HR_OK : wrong(record, column, "at most 16777216 tokens");
}

static hr_status make_room(trace *to, hr_error *error)
{
  if (to->count < to->room)
    return HR_OK;
  size_t room = to->room > 0 ? 2 * to->room : 1024;
  hr_load_request *grown = realloc(to->requests, room * sizeof *grown);
  if (!grown)
    return hr_fail(error, HR_ERROR_OUT_OF_MEMORY, "not enough memory for the trace");
  to->requests = grown;
  to->room = room;
  return HR_OK;
}

static hr_status take_request(void *context, const hr_csv_record *record)
{
  trace *to = context;
  hr_load_request request;
  double last_ns = to->count > 0 ? to->requests[to->count - 1].arrival_ns : 0;
  if (to->count == (size_t)HR_LOAD_REQUESTS_MAX)
    return hr_fail(record->error, HR_ERROR_INVALID, "%s: line %" PRId64 ": more than %" PRId64 " requests",
                   record->name, record->line, HR_LOAD_REQUESTS_MAX);
  HR_TRY(read_arrival(record, last_ns, &request.arrival_ns));
  HR_TRY(read_tokens(record, "prompt", &request.prompt));
  HR_TRY(read_tokens(record, "output", &request.output));
  HR_TRY(make_room(to, record->error));
  to->requests[to->count++] = request;
  return HR_OK;
}

hr_status hr_load_trace_parse(const hr_input *input, hr_load_request **requests, size_t *count, hr_error *error)
{
  HR_NEED(error, input, requests, count);
  HR_NEED(error, input->text, input->name);
  trace read = {0};
  hr_status status = hr_csv_read(input->text, input->length, input->name, take_request, &read, error);
  if (status == HR_OK && read.count == 0)
    status = hr_fail(error, HR_ERROR_INVALID, "%s: has no request", input->name);
  if (status != HR_OK) {
    free(read.requests);
    return status;
  }
  *requests = read.requests;
  *count = read.count;
  return HR_OK;
}

void hr_load_trace_free(hr_load_request *requests)
{
  free(requests);
}
