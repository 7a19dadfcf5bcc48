/* SPDX-License-Identifier: Apache-2.0 */
/* The tables of a store. */
#ifndef HR_RUNTIME_STORE_SCHEMA_H
#define HR_RUNTIME_STORE_SCHEMA_H

#include "runtime/store/database.h"

/** Reads the version of the file into store->version and, when `writing`, creates the tables or brings them up to date.
 *  HR_ERROR_UNREADABLE: no store, or an empty one when reading; HR_ERROR_UNSUPPORTED: a newer version. */
hr_status hr_store_prepare_tables(hr_store *store, bool writing, hr_error *error);

#endif
