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
  ROW(GROUP_ADVISE, 6, "Findings:")   \
  ROW(GROUP_PROBE, 7, "Probing:")     \
  ROW(GROUP_LIST, 8, "Names:")        \
  ROW(GROUP_SWEEP, 9, "Sweep:")       \
  ROW(GROUP_ROWS, 10, "Rows:")        \
  ROW(GROUP_STORE, 11, "Store:")      \
  ROW(GROUP_COMMON, 12, "Result:")

enum {
#define CLI_GROUP(enumerator, bit, heading) enumerator = 1 << bit,
  CLI_GROUP_LIST(CLI_GROUP)
#undef CLI_GROUP
};

#define CLI_GROUP_COUNT 13

#endif
