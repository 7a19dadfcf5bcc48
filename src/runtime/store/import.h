/* SPDX-License-Identifier: Apache-2.0 */
/* The formats of an import. */
#ifndef HR_RUNTIME_STORE_IMPORT_H
#define HR_RUNTIME_STORE_IMPORT_H

#include "runtime/store/import_row.h"

/** Read the whole input, from which nothing but a byte order mark has been read. */
hr_status hr_import_csv(hr_import *import);
hr_status hr_import_json_lines(hr_import *import);

#endif
