/* SPDX-License-Identifier: Apache-2.0 */
#include "base/quantity.h"

#include "base/names.h"
#include "base/text.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

void hr_write_count(char *to, size_t size, int64_t count)
{
  char digits[24];
  int length = snprintf(digits, sizeof digits, "%" PRId64, count);
  size_t used = 0;
  for (int i = 0; i < length && used + 2 < size; i++) {
    to[used++] = digits[i];
    int left = length - 1 - i;
    if (left > 0 && left % 3 == 0 && digits[i] != '-')
      to[used++] = ',';
  }
  to[used] = '\0';
}

/* Three significant digits: 1.23, 12.3, 123, 1234. */
static void write_scaled(char *to, size_t size, double value, const char *unit)
{
  double magnitude = fabs(value);
  int decimals = magnitude < 9.995 ? 2 : magnitude < 99.95 ? 1 : 0;
  hr_write_text(to, size, "%.*f %s", decimals, value, unit);
}

typedef struct scale {
  double at_least; /* smallest value, rounded as printed, that takes this unit */
  double divisor;
  const char *unit;
} scale;

static void write_with(char *to, size_t size, double value, const scale *scales, size_t count, const char *unit)
{
  if (!isfinite(value)) {
    hr_copy_text(to, size, "-");
    return;
  }
  size_t i = 0;
  while (i + 1 < count && fabs(value) < 0.9995 * scales[i].at_least)
    i++;
  char name[24];
  snprintf(name, sizeof name, "%s%s", scales[i].unit, unit);
  if (name[0] == '\0')
    hr_write_text(to, size, "%.0f", value);
  else
    write_scaled(to, size, value / scales[i].divisor, name);
}

#define WRITE_WITH(to, size, value, scales, unit) \
  write_with(to, size, value, scales, sizeof(scales) / sizeof *(scales), unit)

void hr_write_short(char *to, size_t size, double count)
{
  static const scale scales[] = {{1e12, 1e12, "T"}, {1e9, 1e9, "B"}, {1e6, 1e6, "M"}, {1e3, 1e3, "k"}, {0, 1, ""}};
  WRITE_WITH(to, size, count, scales, "");
}

void hr_write_time(char *to, size_t size, double time_ns)
{
  static const scale scales[] = {{1e9, 1e9, "s"}, {1e6, 1e6, "ms"}, {1e3, 1e3, "µs"}, {0, 1, "ns"}};
  if (time_ns == 0)
    hr_copy_text(to, size, "0 ns");
  else
    WRITE_WITH(to, size, time_ns, scales, "");
}

void hr_write_bytes(char *to, size_t size, double bytes)
{
  static const scale scales[] = {
      {0x1p40, 0x1p40, "TiB"}, {0x1p30, 0x1p30, "GiB"}, {0x1p20, 0x1p20, "MiB"}, {0x1p10, 0x1p10, "KiB"}};
  if (fabs(bytes) < 0x1p10)
    hr_write_text(to, size, "%.0f B", bytes);
  else
    WRITE_WITH(to, size, bytes, scales, "");
}

void hr_write_rate(char *to, size_t size, double per_s, const char *unit)
{
  static const scale scales[] = {{1e18, 1e18, "E"}, {1e15, 1e15, "P"}, {1e12, 1e12, "T"}, {1e9, 1e9, "G"},
                                 {1e6, 1e6, "M"},   {1e3, 1e3, "k"},   {0, 1, ""}};
  WRITE_WITH(to, size, per_s, scales, unit);
}

void hr_write_energy(char *to, size_t size, double joules)
{
  static const scale scales[] = {{1, 1, ""}, {1e-3, 1e-3, "m"}, {1e-6, 1e-6, "µ"}, {0, 1e-9, "n"}};
  WRITE_WITH(to, size, joules, scales, "J");
}

void hr_write_share(char *to, size_t size, double share)
{
  if (!isfinite(share))
    hr_copy_text(to, size, "-");
  else
    hr_write_text(to, size, "%.1f%%", 100 * share);
}

/* One decimal, but at least one significant digit: a vocabulary padded by 47 rows adds +0.005% parameters, not 0%. */
void hr_write_gain(char *to, size_t size, double gain)
{
  double percent = 100 * gain, magnitude = fabs(percent);
  if (!isfinite(gain))
    hr_copy_text(to, size, "-");
  else if (magnitude < 0.00095)
    hr_copy_text(to, size, "0%");
  else
    hr_write_text(to, size, "%+.*f%%",
                  magnitude < 0.0095  ? 3
                  : magnitude < 0.095 ? 2
                  : magnitude < 99.95 ? 1
                                      : 0,
                  percent);
}
