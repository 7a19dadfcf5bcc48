/* SPDX-License-Identifier: Apache-2.0 */
#include "schedule/pipeline.h"

/* What a stage does next, in an order that does not depend on the others. */
static hr_stage_work next_of(const hr_stage_turn *stage, int64_t behind, int64_t microbatches, bool trains)
{
  const bool may_add = !trains || stage->forward - stage->backward <= behind;
  if (stage->forward < microbatches && may_add)
    return HR_STAGE_FORWARD;
  return trains && stage->backward < microbatches ? HR_STAGE_BACKWARD : HR_STAGE_WAITS;
}

static bool is_there(const hr_stage_turn *stages, int64_t count, int64_t s, hr_stage_work work)
{
  if (work == HR_STAGE_FORWARD)
    return s == 0 || stages[s - 1].forward > stages[s].forward;
  return s + 1 == count || stages[s + 1].backward > stages[s].backward;
}

bool hr_stages_next(hr_stage_turn *stages, int64_t count, int64_t microbatches, bool trains)
{
  bool works = false;
  for (int64_t s = 0; s < count; s++) {
    const hr_stage_work next = next_of(&stages[s], count - 1 - s, microbatches, trains);
    stages[s].work = next != HR_STAGE_WAITS && is_there(stages, count, s, next) ? next : HR_STAGE_WAITS;
    stages[s].microbatch = next == HR_STAGE_FORWARD ? stages[s].forward : stages[s].backward;
    works = works || stages[s].work != HR_STAGE_WAITS;
  }
  for (int64_t s = 0; s < count; s++) {
    stages[s].forward += stages[s].work == HR_STAGE_FORWARD;
    stages[s].backward += stages[s].work == HR_STAGE_BACKWARD;
  }
  return works;
}
