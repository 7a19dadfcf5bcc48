/* SPDX-License-Identifier: Apache-2.0 */
/* Adding the rows of an import or a merge. */
#ifndef HR_RUNTIME_STORE_APPEND_H
#define HR_RUNTIME_STORE_APPEND_H

#include "runtime/store/database.h"

/** Stamps (if the row has no id), checks, normalises and inserts a row, and counts it in *change. Call inside a
 *  transaction. */
hr_status hr_store_insert(hr_store *store, hr_result *result, hr_store_change *change, hr_error *error);

#endif
