/* Groups of options. A command has those that its row in commands.inc names; help shows them in this order. */
#ifndef CLI_GROUPS_H
#define CLI_GROUPS_H

#include "cli.h"

/* One row a group: enumerator, bit, heading in the help. */
#define CLI_GROUP_LIST(ROW)           \
  ROW(GROUP_DEVICE, 0, "Device:")     \
  ROW(GROUP_WORKLOAD, 1, "Workload:") \
  ROW(GROUP_DTYPE, 2, "Numbers:")     \
  ROW(GROUP_GEMM, 3, "Product:")      \
  ROW(GROUP_SEARCH, 4, "Search:")     \
  ROW(GROUP_MEASURE, 5, "Measuring:") \
  ROW(GROUP_LAYER, 6, "Measuring:")   \
  ROW(GROUP_ADVISE, 7, "Findings:")   \
  ROW(GROUP_PROBE, 8, "Probing:")     \
  ROW(GROUP_LIST, 9, "Names:")        \
  ROW(GROUP_SWEEP, 10, "Sweep:")      \
  ROW(GROUP_ROWS, 11, "Rows:")        \
  ROW(GROUP_STORE, 12, "Store:")      \
  ROW(GROUP_COMMON, 13, "Result:")    \
  ROW(GROUP_ATTENTION, 14, "Attention:")

enum {
#define CLI_GROUP(enumerator, bit, heading) enumerator = 1 << bit,
  CLI_GROUP_LIST(CLI_GROUP)
#undef CLI_GROUP
};

#define CLI_GROUP_COUNT 15

#endif
