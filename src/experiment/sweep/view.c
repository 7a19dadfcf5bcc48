/* SPDX-License-Identifier: Apache-2.0 */
#include "base/error.h"
#include "base/names.h"

#include <headroom/experimental/sweep.h>

static const char *const view_names[] = {
#define HR_VIEW_NAME(enumerator, name) name,
    HR_VIEW_LIST(HR_VIEW_NAME)
#undef HR_VIEW_NAME
};

HR_DEFINE_NAME(hr_view_name, hr_view, view_names, HR_VIEW_COUNT)
HR_DEFINE_PARSE(hr_view_parse, hr_view, view_names, HR_VIEW_COUNT)
