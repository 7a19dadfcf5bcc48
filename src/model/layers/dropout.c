/* SPDX-License-Identifier: Apache-2.0 */
/* Which steps drop elements. */
#include <headroom/experimental/workload.h>

#include "base/error.h"
#include "base/names.h"

static const char *const dropouts[] = {"none", "train", "forward"};

#define DROPOUT_COUNT (sizeof dropouts / sizeof *dropouts)

bool hr_workload_drops(const hr_workload *workload)
{
  return (workload->phase == HR_PHASE_TRAIN && workload->dropout != HR_DROPOUT_NONE) ||
         (workload->phase == HR_PHASE_FORWARD && workload->dropout == HR_DROPOUT_FORWARD);
}

HR_DEFINE_NAME(hr_dropout_name, hr_dropout, dropouts, DROPOUT_COUNT)
HR_DEFINE_PARSE(hr_dropout_parse, hr_dropout, dropouts, DROPOUT_COUNT)
