/* SPDX-License-Identifier: Apache-2.0 */
#include <headroom/version.h>

const char *hr_version(void)
{
  return HR_VERSION;
}

const char *hr_version_commit(void)
{
  return HR_COMMIT;
}

int hr_version_number(void)
{
  return HR_VERSION_NUMBER;
}
