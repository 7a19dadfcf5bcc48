/* SPDX-License-Identifier: Apache-2.0 */
/* Prints serve-plan's predictions beside published rates of servers (data/results/published/serving.csv), as the tables
 * of docs/serving.md. */
#include "unit/served.h"

/* One figure: as published, predicted, and the ratio; empty if it was not published. */
static void print_ratio(double predicted, double published)
{
  int decimals = published < 100 ? 1 : 0;
  if (published > 0)
    printf(" %.*f | %.*f | %.2f |", decimals, published, decimals, predicted, predicted / published);
  else
    printf(" | | |");
}

int main(void)
{
  static served rows[SERVED_MAX];
  size_t count = served_read(rows);
  const char *last = "";
  for (size_t i = 0; i < count; i++) {
    const served *row = &rows[i];
    hr_serve_point point;
    hr_error error = {.message = "the batch does not fit"};
    if (served_plan(row, &point, &error) != HR_OK) {
      fprintf(stderr, "%s on %s: %s\n", row->model, row->device, error.message);
      return 1;
    }
    if (strcmp(last, row->source) != 0)
      printf(
          "\n%s\n\n| model | device | t | prompt/output | batch | tokens/s | predicted | ratio | TTFT ms | predicted | "
          "ratio | TPOT ms | predicted | ratio |\n|---|---|---|---|---|---|---|---|---|---|---|---|---|---|\n",
          row->source);
    last = row->source;
    printf("| %s | %s | %d | %d/%d | %d |", row->model, row->device, (int)row->tensor_parallel, (int)row->prompt,
           (int)row->output, (int)point.batch);
    print_ratio(point.output_tokens_per_s, row->output_tokens_per_s);
    print_ratio(point.ttft_ns / 1e6, row->ttft_ms);
    print_ratio(point.tpot_ns / 1e6, row->tpot_ms);
    printf("\n");
  }
  return count > 0 ? 0 : 1;
}
