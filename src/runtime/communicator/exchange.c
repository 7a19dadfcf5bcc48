/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/communicator/communicator.h"

#include <inttypes.h>
#include <stdio.h>

hr_status hr_communicator_exchange(hr_communicator *c, const char *what, const void *mine, size_t bytes, void *all,
                                   hr_error *error)
{
  char name[64];
  snprintf(name, sizeof name, "%s (exchange %" PRId64 ")", what, ++c->exchanges);
  const hr_exchange e = {.mine = mine, .all = all, .bytes = bytes, .what = name, .patience_s = c->patience_s};
  return c->meeting->functions->exchange(c->meeting, &e, error);
}

int64_t hr_sent_elements(const hr_collective_call *call, int64_t size)
{
  return call->kind == HR_ALL_GATHER ? call->count / size : call->count;
}
