/* SPDX-License-Identifier: Apache-2.0 */
/* What protects a process from a store that somebody else made, and lets its caller stop long work on one. */
#ifndef HR_RUNTIME_STORE_DEFENCE_H
#define HR_RUNTIME_STORE_DEFENCE_H

#include "runtime/store/database.h"

/** Prepares a connection before its first statement: SQLite's defences against hostile files
 *  (https://sqlite.org/security.html), the wait for locks, and the polling of store->cancelled. */
hr_status hr_store_defend(hr_store *store, hr_error *error);

/** Before the first statement, too: HR_ERROR_UNREADABLE if a file beside the store would let SQLite wait without end or
 *  delete a file that has nothing to do with the store. */
hr_status hr_store_check_companions(const hr_store *store, hr_error *error);

/** The part of hr_store_defend() that points to the handle; again when the handle moves in memory. */
void hr_store_set_handlers(hr_store *store);

/** HR_ERROR_UNREADABLE if the file has more than the tables of a store: a view may stand for a table and never end, a
 *  trigger may drop or change what is written. */
hr_status hr_store_check_objects(hr_store *store, hr_error *error);

#endif
