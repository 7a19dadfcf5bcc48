/* SPDX-License-Identifier: Apache-2.0 */
/* What launchers tell the processes that they start. */
#include <headroom/experimental/communicator.h>

#include "base/error.h"
#include "base/struct_size.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define USUAL_PORT 29517
#define JOB_PORTS 20000 /* from here on, one for each Slurm job */

/* Slurm sets SLURM_PROCID and SLURM_NTASKS also for a batch script outside of a step. */
static const struct {
  const char *size, *rank, *local_rank, *local_size;
} launchers[] = {
    {"WORLD_SIZE", "RANK", "LOCAL_RANK", "LOCAL_WORLD_SIZE"}, /* torchrun */
    {"OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"},
    {"SLURM_STEP_NUM_TASKS", "SLURM_PROCID", "SLURM_LOCALID", "SLURM_STEP_TASKS_PER_NODE"},
};

static hr_status read_number(const char *name, int64_t least, int64_t most, int64_t *number, hr_error *error)
{
  const char *text = getenv(name);
  char *end = NULL;
  errno = 0;
  const int64_t value = text ? strtoll(text, &end, 10) : 0;
  if (!text || !*text)
    return hr_fail(error, HR_ERROR_INVALID, "%s is not set, which its launcher's other variables need", name);
  if (*end || errno != 0 || value < least || value > most)
    return hr_fail(error, HR_ERROR_INVALID, "%s: expected %" PRId64 " to %" PRId64 ", found '%s'", name, least, most,
                   text);
  *number = value;
  return HR_OK;
}

/* The first host of Slurm's list: "node[07-12,20],other" begins with node07. */
static void first_host(const char *list, char *host, size_t size)
{
  const size_t name = strcspn(list, "[,"), number = list[name] == '[' ? strspn(list + name + 1, "0123456789") : 0;
  snprintf(host, size, "%.*s%.*s", (int)name, list, (int)number, number > 0 ? list + name + 1 : "");
}

/* "": not known. */
static void find_address(hr_communicator_options *o)
{
  const char *given = getenv("MASTER_ADDR"), *nodes = getenv("SLURM_STEP_NODELIST");
  if (given && *given)
    snprintf(o->address, sizeof o->address, "%s", given);
  else if (nodes && *nodes)
    first_host(nodes, o->address, sizeof o->address);
  else if (o->local_size == o->size)
    snprintf(o->address, sizeof o->address, "127.0.0.1");
}

static hr_status find_port(hr_communicator_options *o, hr_error *error)
{
  int64_t number;
  o->port = USUAL_PORT;
  if (getenv("HEADROOM_PORT"))
    return read_number("HEADROOM_PORT", 1, UINT16_MAX, &o->port, error);
  if (getenv("MASTER_PORT")) {
    HR_TRY(read_number("MASTER_PORT", 1, UINT16_MAX - 1, &number, error));
    o->port = number + 1;
  } else if (getenv("SLURM_JOB_ID")) {
    HR_TRY(read_number("SLURM_JOB_ID", 0, INT64_MAX, &number, error));
    o->port = JOB_PORTS + number % JOB_PORTS;
  }
  return HR_OK;
}

/* Slurm writes "4(x2),3" for nodes with 4, 4 and 3 tasks: only the first number is read. */
static int64_t local_size(const char *name, const hr_communicator_options *o)
{
  const char *text = getenv(name);
  const long long count = text ? strtoll(text, NULL, 10) : o->size == 1;
  return count > o->local_rank && count <= o->size ? count : 0;
}

hr_status hr_communicator_environment(hr_communicator_options *options, hr_error *error)
{
  HR_NEED(error, options);
  hr_communicator_options found = hr_communicator_options_default();
  const size_t count = sizeof launchers / sizeof *launchers;
  size_t i = 0;
  while (i < count && !getenv(launchers[i].size))
    i++;
  if (i == count)
    return hr_fail(error, HR_ERROR_NOT_FOUND, "no launcher has set %s, %s or %s: torchrun, mpirun or srun does",
                   launchers[0].size, launchers[1].size, launchers[2].size);
  HR_TRY(read_number(launchers[i].size, 1, 1 << 20, &found.size, error));
  HR_TRY(read_number(launchers[i].rank, 0, found.size - 1, &found.rank, error));
  if (getenv(launchers[i].local_rank))
    HR_TRY(read_number(launchers[i].local_rank, 0, found.size - 1, &found.local_rank, error));
  found.local_size = local_size(launchers[i].local_size, &found);
  find_address(&found);
  HR_TRY(find_port(&found, error));
  return hr_give_struct(options, &found, sizeof found, "hr_communicator_options", error);
}
