/* SPDX-License-Identifier: Apache-2.0 */
/* Groups of options. A command has the groups in its row of commands.inc; help shows them in this order. */
#ifndef CLI_GROUPS_H
#define CLI_GROUPS_H

#include "cli.h"

/* One row a group: enumerator, bit, heading in the help. */
#define CLI_GROUP_LIST(ROW)                \
  ROW(GROUP_DEVICE, 0, "Device:")          \
  ROW(GROUP_OFFER, 1, "Prices:")           \
  ROW(GROUP_WORKLOAD, 2, "Workload:")      \
  ROW(GROUP_NETWORK, 3, "Network:")        \
  ROW(GROUP_PREDICT, 4, "Predictions:")    \
  ROW(GROUP_DTYPE, 5, "Number format:")    \
  ROW(GROUP_GEMM, 6, "GEMM:")              \
  ROW(GROUP_ATTENTION, 7, "Attention:")    \
  ROW(GROUP_DECODE, 8, "Decode:")          \
  ROW(GROUP_SEARCH, 9, "Search:")          \
  ROW(GROUP_LAYER, 10, "Layer:")           \
  ROW(GROUP_MEASURE, 11, "Measuring:")     \
  ROW(GROUP_TIMING, 12, "Measuring:")      \
  ROW(GROUP_ADVISE, 13, "Findings:")       \
  ROW(GROUP_PROBE, 14, "Probing:")         \
  ROW(GROUP_LIST, 15, "Names:")            \
  ROW(GROUP_SWEEP, 16, "Sweep:")           \
  ROW(GROUP_ROWS, 17, "Choice of rows:")   \
  ROW(GROUP_STORE, 18, "Store:")           \
  ROW(GROUP_SERVE, 19, "Serving:")         \
  ROW(GROUP_PLAN, 20, "Training:")         \
  ROW(GROUP_COMPARE, 21, "Comparison:")    \
  ROW(GROUP_REPORT, 22, "Report:")         \
  ROW(GROUP_PLOT, 23, "Picture:")          \
  ROW(GROUP_PICTURE, 24, "Picture:")       \
  ROW(GROUP_VALIDATE, 25, "Validation:")   \
  ROW(GROUP_DRAW, 26, "Measuring:")        \
  ROW(GROUP_CALIBRATE, 27, "Calibration:") \
  ROW(GROUP_STEP, 28, "Step:")             \
  ROW(GROUP_RUN, 29, "Model:")             \
  ROW(GROUP_GENERATE, 30, "Tokens:")       \
  ROW(GROUP_COMMON, 31, "Output:")

/* Constants wider than int are an extension of GNU C. */
__extension__ enum {
#define CLI_GROUP(enumerator, bit, heading) enumerator = UINT64_C(1) << bit,
  CLI_GROUP_LIST(CLI_GROUP)
#undef CLI_GROUP
};

#define CLI_GROUP_COUNT 32

#endif
