/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers with their units as people read them. */
#ifndef HR_BASE_QUANTITY_H
#define HR_BASE_QUANTITY_H

#include <stddef.h>
#include <stdint.h>

/** Long enough for every number below. */
#define HR_NUMBER_SIZE 48

void hr_write_count(char *to, size_t size, int64_t count);                 /* 50,257 */
void hr_write_short(char *to, size_t size, double count);                  /* 2.78 B */
void hr_write_time(char *to, size_t size, double time_ns);                 /* 12.4 µs */
void hr_write_bytes(char *to, size_t size, double bytes);                  /* 5.17 GiB */
void hr_write_rate(char *to, size_t size, double per_s, const char *unit); /* 693 TFLOP/s */
void hr_write_energy(char *to, size_t size, double joules);                /* 75.7 mJ */
void hr_write_share(char *to, size_t size, double share);                  /* 12.3% */
void hr_write_gain(char *to, size_t size, double gain);                    /* +18.2% */

#endif
