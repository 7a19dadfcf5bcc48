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

/* A row per launcher. */
typedef struct launcher {
  const char *rank, *size, *local_rank;
} launcher;

static const launcher launchers[] = {
    {"RANK", "WORLD_SIZE", "LOCAL_RANK"},                                           /* torchrun */
    {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"}, /* mpirun */
    {"SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID"}, /* SLURM_NTASKS is set outside of steps, too */
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

static hr_status find_address(hr_communicator_options *o, hr_error *error)
{
  const char *given = getenv("MASTER_ADDR"), *nodes = getenv("SLURM_STEP_NODELIST");
  int64_t local = 0;
  if (given && *given) {
    snprintf(o->address, sizeof o->address, "%s", given);
    return HR_OK;
  }
  if (nodes && *nodes) {
    first_host(nodes, o->address, sizeof o->address);
    return HR_OK;
  }
  if (getenv("OMPI_COMM_WORLD_LOCAL_SIZE"))
    HR_TRY(read_number("OMPI_COMM_WORLD_LOCAL_SIZE", 1, INT32_MAX, &local, error));
  if (o->size > 1 && local != o->size)
    return hr_fail(error, HR_ERROR_INVALID, "MASTER_ADDR is not set: the host of rank 0 is not known");
  snprintf(o->address, sizeof o->address, "127.0.0.1");
  return HR_OK;
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

hr_status hr_communicator_environment(hr_communicator_options *options, hr_error *error)
{
  HR_NEED(error, options);
  hr_communicator_options found = hr_communicator_options_default();
  const launcher *l = launchers;
  const size_t count = sizeof launchers / sizeof *launchers;
  while (l < launchers + count && !getenv(l->rank))
    l++;
  if (l == launchers + count)
    return hr_fail(error, HR_ERROR_NOT_FOUND,
                   "no launcher has set RANK, OMPI_COMM_WORLD_RANK or SLURM_PROCID: torchrun, mpirun or srun does");
  HR_TRY(read_number(l->size, 1, 1 << 20, &found.size, error));
  HR_TRY(read_number(l->rank, 0, found.size - 1, &found.rank, error));
  HR_TRY(read_number(l->local_rank, 0, found.size - 1, &found.local_rank, error));
  HR_TRY(find_address(&found, error));
  HR_TRY(find_port(&found, error));
  return hr_give_struct(options, &found, sizeof found, "hr_communicator_options", error);
}
