/* SPDX-License-Identifier: Apache-2.0 */
#include <headroom/experimental/collective.h>

#include "base/error.h"
#include "base/names.h"
#include "base/struct_size.h"

#include <inttypes.h>

#define DEVICES_MAX ((int64_t)1 << 40)
#define BYTES_MAX ((int64_t)1 << 62)

static const char *const names[] = {
#define HR_COLLECTIVE_NAME(enumerator, name) name,
    HR_COLLECTIVE_LIST(HR_COLLECTIVE_NAME)
#undef HR_COLLECTIVE_NAME
};

static const char *const libraries[] = {
#define HR_LIBRARY_NAME(enumerator, name) name,
    HR_LIBRARY_LIST(HR_LIBRARY_NAME)
#undef HR_LIBRARY_NAME
};

void hr_collective_init(hr_collective *collective, size_t size)
{
  HR_INIT(collective, size, (hr_collective){.kind = HR_ALL_REDUCE, .devices = 1, .stride = 1});
}

static hr_status check_size(const char *member, int64_t value, int64_t least, int64_t most, hr_error *error)
{
  if (value >= least && value <= most)
    return HR_OK;
  return hr_fail(error, HR_ERROR_INVALID, "%s: expected %" PRId64 " to %" PRId64 ", found %" PRId64, member, least,
                 most, value);
}

hr_status hr_collective_check(const hr_collective *collective, hr_error *error)
{
  HR_NEED(error, collective);
  HR_TAKE(hr_collective, collective, error);
  if ((unsigned)collective->kind >= HR_COLLECTIVE_COUNT)
    return hr_fail(error, HR_ERROR_INVALID, "kind: %d is not a collective", (int)collective->kind);
  if ((unsigned)collective->library >= HR_LIBRARY_COUNT)
    return hr_fail(error, HR_ERROR_INVALID, "library: %d is not in the list", (int)collective->library);
  int64_t most = collective->kind == HR_POINT_TO_POINT ? 2 : DEVICES_MAX;
  HR_TRY(check_size("devices", collective->devices, 1, most, error));
  HR_TRY(check_size("stride", collective->stride, 1, DEVICES_MAX, error));
  HR_TRY(check_size("copies", collective->copies, 0, DEVICES_MAX, error));
  return check_size("bytes", collective->bytes, 0, BYTES_MAX, error);
}

double hr_collective_bus_share(hr_collective_kind kind, int64_t devices)
{
  if (devices < 2)
    return 0;
  double sent = (double)(devices - 1) / (double)devices;
  if (kind == HR_POINT_TO_POINT || kind == HR_BROADCAST)
    return 1;
  return kind == HR_ALL_REDUCE ? 2 * sent : sent;
}

HR_DEFINE_NAME(hr_collective_name, hr_collective_kind, names, HR_COLLECTIVE_COUNT)
HR_DEFINE_PARSE(hr_collective_parse, hr_collective_kind, names, HR_COLLECTIVE_COUNT)
HR_DEFINE_NAME(hr_collective_library_name, hr_collective_library, libraries, HR_LIBRARY_COUNT)
HR_DEFINE_PARSE(hr_collective_library_parse, hr_collective_library, libraries, HR_LIBRARY_COUNT)
