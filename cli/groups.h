/* SPDX-License-Identifier: Apache-2.0 */
/* Groups of options. A command has the groups in its row of commands.inc; help shows them in this order. */
#ifndef CLI_GROUPS_H
#define CLI_GROUPS_H

#include "cli.h"

/* One row a group: enumerator, bit, heading in the help. */
#define CLI_GROUP_LIST(ROW)              \
  ROW(GROUP_DEVICE, 0, "Device:")        \
  ROW(GROUP_WORKLOAD, 1, "Workload:")    \
  ROW(GROUP_DTYPE, 2, "Number format:")  \
  ROW(GROUP_GEMM, 3, "GEMM:")            \
  ROW(GROUP_ATTENTION, 4, "Attention:")  \
  ROW(GROUP_DECODE, 5, "Decode:")        \
  ROW(GROUP_SEARCH, 6, "Search:")        \
  ROW(GROUP_LAYER, 7, "Layer:")          \
  ROW(GROUP_MEASURE, 8, "Measuring:")    \
  ROW(GROUP_TIMING, 9, "Measuring:")     \
  ROW(GROUP_ADVISE, 10, "Findings:")     \
  ROW(GROUP_PROBE, 11, "Probing:")       \
  ROW(GROUP_LIST, 12, "Names:")          \
  ROW(GROUP_SWEEP, 13, "Sweep:")         \
  ROW(GROUP_ROWS, 14, "Choice of rows:") \
  ROW(GROUP_STORE, 15, "Store:")         \
  ROW(GROUP_COMMON, 16, "Output:")

enum {
#define CLI_GROUP(enumerator, bit, heading) enumerator = 1 << bit,
  CLI_GROUP_LIST(CLI_GROUP)
#undef CLI_GROUP
};

#define CLI_GROUP_COUNT 17

#endif
