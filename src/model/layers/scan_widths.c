/* SPDX-License-Identifier: Apache-2.0 */
#include "model/layers/scan_widths.h"

#include "base/names.h"

#include <headroom/dtype.h>
#include <headroom/experimental/model.h>

const char *hr_recurrence_name(hr_recurrence recurrence)
{
  static const char *const names[] = {[HR_RECURRENCE_NONE] = "none",
                                      [HR_RECURRENCE_SELECTIVE] = "mamba",
                                      [HR_RECURRENCE_SSD] = "mamba2",
                                      [HR_RECURRENCE_GATED_DELTA] = "gated_delta",
                                      [HR_RECURRENCE_LIGHTNING] = "lightning",
                                      [HR_RECURRENCE_RG_LRU] = "rg_lru",
                                      [HR_RECURRENCE_CONVOLUTION] = "convolution",
                                      [HR_RECURRENCE_KIMI_DELTA] = "kimi_delta"};
  return hr_name_of(names, sizeof names / sizeof *names, (int)recurrence);
}

hr_checked64 hr_scan_channels(const hr_mixer_scan *m)
{
  return hr_times(hr_checked(m->heads), m->head_dim);
}

hr_checked64 hr_scan_keys(const hr_mixer_scan *m)
{
  return hr_times(hr_checked(m->groups), m->state);
}

static hr_checked64 sum_of(hr_checked64 channels, int64_t channel_times, hr_checked64 keys, int64_t key_times,
                           int64_t heads)
{
  return hr_plus(hr_plus(hr_times(channels, channel_times), hr_times(keys, key_times)), hr_checked(heads));
}

/* Mamba: x and gate, Mamba-2 also B, C and a step size per head; delta net: queries, keys, values, gate, a decay and a
 * learning rate per head; Kimi's: queries, keys, values, the ranks of its decays and of its gate, a learning rate per
 * head; lightning attention: queries, keys, values, gate; RG-LRU: x and gate; short convolution: x and the gates before
 * and behind it. */
hr_checked64 hr_scan_projected(const hr_mixer_scan *m)
{
  hr_checked64 channels = hr_scan_channels(m), keys = hr_scan_keys(m);
  switch (m->recurrence) {
  case HR_RECURRENCE_SSD: return sum_of(channels, 2, keys, 2, m->heads);
  case HR_RECURRENCE_GATED_DELTA: return sum_of(channels, 2, keys, 2, 2 * m->heads);
  case HR_RECURRENCE_KIMI_DELTA: return sum_of(channels, 1, keys, 2, m->heads + 2 * m->rank);
  case HR_RECURRENCE_LIGHTNING: return sum_of(channels, 2, keys, 2, 0);
  case HR_RECURRENCE_CONVOLUTION: return hr_times(channels, 3);
  case HR_RECURRENCE_SELECTIVE:
  case HR_RECURRENCE_RG_LRU:
  case HR_RECURRENCE_NONE: break;
  }
  return hr_times(channels, 2);
}

hr_checked64 hr_scan_convolved(const hr_mixer_scan *m)
{
  bool with_keys = m->recurrence == HR_RECURRENCE_SSD || m->recurrence == HR_RECURRENCE_GATED_DELTA ||
                   m->recurrence == HR_RECURRENCE_KIMI_DELTA;
  hr_checked64 channels = hr_scan_channels(m);
  if (m->kernel == 0)
    return hr_checked(0);
  return with_keys ? sum_of(channels, 1, hr_scan_keys(m), 2, 0) : channels;
}

hr_checked64 hr_scan_selected(const hr_mixer_scan *m)
{
  if (m->recurrence != HR_RECURRENCE_SELECTIVE)
    return hr_checked(0);
  return sum_of(hr_checked(m->rank), 1, hr_scan_keys(m), 2, 0);
}

hr_checked64 hr_scan_state(const hr_mixer_scan *m)
{
  return hr_times(hr_scan_channels(m), m->state);
}

hr_checked64 hr_scan_state_bytes(const hr_mixer_scan *m)
{
  return hr_times(hr_scan_state(m), (int64_t)hr_dtype_bytes(HR_FP32));
}

bool hr_scan_has_gate(const hr_mixer_scan *m)
{
  switch (m->recurrence) {
  case HR_RECURRENCE_SSD: return m->norm; /* else the scan itself multiplies by the gate */
  case HR_RECURRENCE_GATED_DELTA:
  case HR_RECURRENCE_KIMI_DELTA:
  case HR_RECURRENCE_LIGHTNING:
  case HR_RECURRENCE_RG_LRU: return true;
  case HR_RECURRENCE_SELECTIVE:
  case HR_RECURRENCE_CONVOLUTION:
  case HR_RECURRENCE_NONE: break;
  }
  return false;
}
