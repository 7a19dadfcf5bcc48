/* SPDX-License-Identifier: Apache-2.0 */
/* Groups of options. A command has the groups in its row of commands.inc; help shows them in this order. */
#ifndef CLI_GROUPS_H
#define CLI_GROUPS_H

#include "cli.h"

/* One row a group: enumerator, bit, heading in the help. */
#define CLI_GROUP_LIST(ROW)                \
  ROW(GROUP_DEVICE, 0, "Device:")          \
  ROW(GROUP_WORKLOAD, 1, "Workload:")      \
  ROW(GROUP_NETWORK, 2, "Network:")        \
  ROW(GROUP_PREDICT, 24, "Predictions:")   \
  ROW(GROUP_DTYPE, 3, "Number format:")    \
  ROW(GROUP_GEMM, 4, "GEMM:")              \
  ROW(GROUP_ATTENTION, 5, "Attention:")    \
  ROW(GROUP_DECODE, 6, "Decode:")          \
  ROW(GROUP_SEARCH, 7, "Search:")          \
  ROW(GROUP_LAYER, 8, "Layer:")            \
  ROW(GROUP_MEASURE, 9, "Measuring:")      \
  ROW(GROUP_TIMING, 10, "Measuring:")      \
  ROW(GROUP_ADVISE, 11, "Findings:")       \
  ROW(GROUP_PROBE, 12, "Probing:")         \
  ROW(GROUP_LIST, 13, "Names:")            \
  ROW(GROUP_SWEEP, 14, "Sweep:")           \
  ROW(GROUP_ROWS, 15, "Choice of rows:")   \
  ROW(GROUP_STORE, 16, "Store:")           \
  ROW(GROUP_SERVE, 17, "Serving:")         \
  ROW(GROUP_PLAN, 27, "Training:")         \
  ROW(GROUP_COMPARE, 18, "Comparison:")    \
  ROW(GROUP_REPORT, 19, "Report:")         \
  ROW(GROUP_PLOT, 20, "Picture:")          \
  ROW(GROUP_PICTURE, 21, "Picture:")       \
  ROW(GROUP_VALIDATE, 22, "Validation:")   \
  ROW(GROUP_DRAW, 25, "Measuring:")        \
  ROW(GROUP_CALIBRATE, 26, "Calibration:") \
  ROW(GROUP_STEP, 28, "Step:")             \
  ROW(GROUP_RUN, 29, "Model:")             \
  ROW(GROUP_GENERATE, 30, "Tokens:")       \
  ROW(GROUP_COMMON, 23, "Output:")

enum {
#define CLI_GROUP(enumerator, bit, heading) enumerator = 1 << bit,
  CLI_GROUP_LIST(CLI_GROUP)
#undef CLI_GROUP
};

#define CLI_GROUP_COUNT 31

#endif
