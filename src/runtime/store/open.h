/* SPDX-License-Identifier: Apache-2.0 */
/* Writing to a store whose file another process may have removed as abandoned. */
#ifndef HR_RUNTIME_STORE_OPEN_H
#define HR_RUNTIME_STORE_OPEN_H

#include "runtime/store/database.h"

/** Whether the file was removed before it had a row that this handle knows of, as hr_store_abandon() does in another
 *  process. */
bool hr_store_was_abandoned(const hr_store *store);

/** Opens the file that is now at the path, or creates it. */
hr_status hr_store_recreate(hr_store *store, hr_error *error);

/** hr_store_transaction_begin(), after recreating a file that was abandoned. */
hr_status hr_store_begin(hr_store *store, hr_error *error);

#endif
