/* SPDX-License-Identifier: Apache-2.0 */
#include "cli.h"

#include <stdlib.h>
#include <string.h>

/* The variables of launchers. Slurm sets SLURM_NTASKS also for a batch script outside of a step; only a step has
 * SLURM_STEP_NUM_TASKS. */
static const struct {
  const char *rank, *size, *local_rank, *local_size;
} launchers[] = {
    {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"},
    {"SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID", "SLURM_STEP_TASKS_PER_NODE"},
};

/* Up to six digits. Slurm writes "4(x2),3" for nodes with 4, 4 and 3 tasks; only the first number is read. */
static bool read_variable(const char *name, int64_t *value)
{
  const char *text = getenv(name);
  size_t digits = text ? strspn(text, "0123456789") : 0;
  if (digits == 0 || digits > 6 || (text[digits] && !strchr("(,", text[digits])))
    return false;
  *value = strtol(text, NULL, 10);
  return true;
}

cli_ranks cli_find_ranks(void)
{
  for (size_t i = 0; i < sizeof launchers / sizeof *launchers; i++) {
    cli_ranks ranks = {.rank = 0};
    if (read_variable(launchers[i].rank, &ranks.rank) && read_variable(launchers[i].size, &ranks.size) &&
        ranks.rank < ranks.size) {
      if (!read_variable(launchers[i].local_rank, &ranks.local_rank))
        ranks.local_rank = 0;
      if (!read_variable(launchers[i].local_size, &ranks.local_size) || ranks.local_size <= ranks.local_rank)
        ranks.local_size = 0;
      return ranks;
    }
  }
  return (cli_ranks){.size = 1, .local_size = 1};
}
