/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HR_RUNTIME_STORE_CANCELLED_H
#define HR_RUNTIME_STORE_CANCELLED_H

#include <headroom/experimental/store.h>
#include <stdbool.h>

/** Whether the caller of the store wants to stop. Long loops over its rows ask it. */
bool hr_store_is_cancelled(const hr_store *store);

#endif
