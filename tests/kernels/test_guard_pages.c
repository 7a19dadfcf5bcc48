/* SPDX-License-Identifier: Apache-2.0 */
/* Every CPU kernel with operands of exactly their size between pages that cannot be accessed: once they end at the page
 * behind, at whatever alignment their size gives, and once they begin at the page before. Inputs cannot be written. The
 * result is that of operands with room around them. */
#include "cpu_problems.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define POISON 0xFF /* NaN in every format */

typedef struct guarded {
  char *map, *data;
  size_t map_bytes, inside, bytes;
} guarded;

static guarded make_guarded(size_t bytes, size_t alignment, bool at_end)
{
  size_t page = (size_t)sysconf(_SC_PAGESIZE);
  guarded g = {.bytes = bytes, .inside = (bytes + page - 1) / page * page};
  g.map_bytes = g.inside + 2 * page;
  g.map = mmap(NULL, g.map_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  assert_true(g.map != MAP_FAILED);
  assert_int_equal(mprotect(g.map + page, g.inside, PROT_READ | PROT_WRITE), 0);
  memset(g.map + page, POISON, g.inside);
  g.data = at_end ? g.map + page + (g.inside - bytes) / alignment * alignment : g.map + page;
  return g;
}

static guarded make_input(const void *from, size_t bytes, bool at_end)
{
  guarded g = make_guarded(bytes, 1, at_end);
  memcpy(g.data, from, bytes);
  assert_int_equal(mprotect(g.map + sysconf(_SC_PAGESIZE), g.inside, PROT_READ), 0);
  return g;
}

/* Decode also takes lengths and writes the log-sum-exp, which are not among the operands. */
static hr_status run_decode(const hr_runner *r, const void *const *inputs, void *output, void *workspace, bool at_end,
                            hr_error *error)
{
  const hr_decode *d = &r->problem.decode;
  hr_decode_arguments arguments =
      hr_problem_arguments(&r->problem, &r->operands, (hr_operand_addresses){inputs, output}).decode;
  int32_t *lengths = malloc((size_t)d->batch * sizeof *lengths);
  assert_non_null(lengths);
  for (int64_t i = 0; i < d->batch; i++)
    lengths[i] = (int32_t)d->kv_len;
  guarded of_lengths = make_input(lengths, (size_t)d->batch * sizeof *lengths, at_end),
          lse = make_guarded((size_t)(d->batch * d->q_heads * d->q_len) * sizeof(float), sizeof(float), at_end);
  arguments.lengths = (const int32_t *)(const void *)of_lengths.data;
  arguments.lse = (float *)(void *)lse.data;
  r->plan->problem.decode.alignment = (int64_t)hr_decode_cache_bytes(d); /* at a guard page they have no more */
  hr_status status = hr_plan_run_decode(r->plan, &arguments, workspace, NULL, error);
  munmap(of_lengths.map, of_lengths.map_bytes);
  munmap(lse.map, lse.map_bytes);
  free(lengths);
  return status;
}

static void assert_result(const hr_runner *r, const guarded *output, bool at_end)
{
  char text[512];
  size_t page = (size_t)sysconf(_SC_PAGESIZE);
  const char *expected = hr_buffer_data(r->buffers[r->operands.count - 1]);
  for (size_t i = 0; i < output->bytes; i++) {
    if (output->data[i] != expected[i])
      fail_msg("%s: byte %zu of %zu is another one where operands %s at a guard page", problem_words(r, text), i,
               output->bytes, at_end ? "end" : "begin");
  }
  for (const char *at = output->map + page; at < output->map + page + output->inside; at++) {
    if ((at < output->data || at >= output->data + output->bytes) && *at != (char)POISON)
      fail_msg("%s: byte %td beside the output was written", problem_words(r, text), at - output->data);
  }
}

static void check_at(const hr_runner *r, bool at_end)
{
  const void *inputs[HR_OPERANDS_MAX] = {NULL};
  guarded operands[HR_OPERANDS_MAX], workspace = {.map = NULL};
  hr_error error = {.message = ""};
  char text[512];
  size_t last = r->operands.count - 1, bytes = hr_plan_workspace_bytes(r->plan);
  for (size_t i = 0; i < last; i++) {
    operands[i] = make_input(hr_buffer_data(r->buffers[i]), r->operands.bytes[i], at_end);
    inputs[i] = operands[i].data;
  }
  operands[last] = make_guarded(r->operands.bytes[last], 1, at_end);
  if (bytes > 0)
    workspace = make_guarded(bytes, 64, at_end);
  hr_status status =
      r->problem.operation == HR_OPERATION_DECODE
          ? run_decode(r, inputs, operands[last].data, workspace.data, at_end, &error)
          : hr_plan_run(r->plan, (hr_operand_addresses){inputs, operands[last].data}, workspace.data, 0, &error);
  if (status != HR_OK)
    fail_msg("%s: %s", problem_words(r, text), error.message);
  assert_result(r, &operands[last], at_end);
  for (size_t i = 0; i <= last; i++)
    munmap(operands[i].map, operands[i].map_bytes);
  if (workspace.map)
    munmap(workspace.map, workspace.map_bytes);
}

static void check(const hr_runner *r)
{
  if (getenv("HEADROOM_TEST_VERBOSE")) { /* the last line names the problem of a crash */
    char text[512];
    fprintf(stderr, "%s\n", problem_words(r, text));
  }
  check_at(r, true);
  check_at(r, false);
}

static void kernels_stay_within_their_operands(void **state)
{
  (void)state;
  assert_true(each_cpu_problem(check) > 0);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(kernels_stay_within_their_operands)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
