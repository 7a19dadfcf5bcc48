/* SPDX-License-Identifier: Apache-2.0 */
/* A checkpoint beside the model that it is of, as lines and as JSON. */
#ifndef HR_REPORT_CHECKPOINT_H
#define HR_REPORT_CHECKPOINT_H

#include "report/document.h"
#include "report/json.h"

#include <headroom/experimental/checkpoint.h>

void hr_print_checkpoint(const hr_document *document, const hr_checkpoint *checkpoint,
                         const hr_checkpoint_comparison *comparison);

/** Adds the object "checkpoint"; null if `checkpoint` is NULL. */
void hr_json_put_checkpoint(hr_json document, const hr_checkpoint *checkpoint,
                            const hr_checkpoint_comparison *comparison);

#endif
