/* SPDX-License-Identifier: Apache-2.0 */
/* What a token adds to the KV cache of a sequence, which is less once windows are full. */
#ifndef HR_REPORT_CACHE_GROWTH_H
#define HR_REPORT_CACHE_GROWTH_H

#include "report/document.h"
#include "report/json.h"

#include <headroom/memory.h>

/** "KV cache  16.0 KiB per token at 2,048 tokens: 336 KiB up to 1,024, 16.0 KiB beyond". */
void hr_print_cache_growth(const hr_document *document, const hr_model *model, const hr_workload *workload,
                           int64_t tokens);

/** Adds "kv_cache_growth": a row for each length from which a token adds another number of bytes, ascending. */
void hr_json_put_cache_growth(hr_json json, const hr_model *model, const hr_workload *workload);

#endif
