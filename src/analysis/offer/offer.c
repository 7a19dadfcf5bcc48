/* SPDX-License-Identifier: Apache-2.0 */
#include <headroom/experimental/offer.h>

#include "base/error.h"
#include "hardware/hardware.h"

#include <math.h>

#define SECONDS_PER_HOUR 3600

hr_offer hr_offer_of(const hr_hardware *hardware)
{
  const hr_offer_value unknown = {NAN, NAN, NAN};
  hr_offer offer = {.hardware = hardware,
                    .price_per_hour = NAN,
                    .power_w = hardware && hardware->power_limit_w > 0 ? hardware->power_limit_w : (double)NAN,
                    .dtype = HR_BF16,
                    .work_per_s = unknown,
                    .work_per_money = unknown,
                    .work_per_joule = unknown,
                    .gemm_flops_per_s = NAN};
  for (size_t i = 0; i < HR_OFFER_FIGURES_MAX; i++)
    offer.figures[i] = unknown;
  return offer;
}

/* ---- the GEMMs of a layer ---- */

#define TOKENS 8192

/* A GEMM [TOKENS, columns · h] = [TOKENS, inner · h] · … */
static const struct layer_gemm {
  int64_t columns, inner;
} layer_gemms[] = {{3, 1}, {1, 1}, {4, 1}, {1, 4}};
static const int64_t hidden_sizes[] = {2048, 4096, 8192};

/* Adds its FLOPs and its time. */
static hr_status add_gemm(const hr_offer *offer, const struct layer_gemm *of, int64_t hidden, double *flops,
                          double *time_ns)
{
  hr_gemm gemm = hr_gemm_default();
  hr_prediction prediction;
  gemm.m = TOKENS, gemm.n = of->columns * hidden, gemm.k = of->inner * hidden;
  gemm.dtype = offer->dtype;
  gemm.transpose_b = true;
  HR_TRY(hr_predict_gemm(offer->hardware, &gemm, &prediction, NULL));
  *flops += 2.0 * (double)gemm.m * (double)gemm.n * (double)gemm.k;
  *time_ns += prediction.time_ns;
  return HR_OK;
}

/* NAN on a device without a rate for the format. */
static double gemm_rate(const hr_offer *offer)
{
  double flops = 0, time_ns = 0;
  for (size_t i = 0; i < sizeof hidden_sizes / sizeof *hidden_sizes; i++) {
    for (size_t k = 0; k < sizeof layer_gemms / sizeof *layer_gemms; k++) {
      if (add_gemm(offer, &layer_gemms[k], hidden_sizes[i], &flops, &time_ns) != HR_OK)
        return NAN;
    }
  }
  return flops / time_ns * 1e9;
}

/* ---- ranks ---- */

/* The rank of a value from 1; of equals the mean of theirs. */
static double rank_of(const double *values, size_t count, size_t of)
{
  double below = 0, equal = 0;
  for (size_t i = 0; i < count; i++) {
    below += values[i] < values[of];
    equal += values[i] == values[of];
  }
  return below + (equal + 1) / 2;
}

/* Pearson's correlation of the ranks; the mean of ranks is (count + 1) / 2. */
static double rank_correlation(const double *a, const double *b, size_t count)
{
  double mean = ((double)count + 1) / 2, ab = 0, aa = 0, bb = 0;
  for (size_t i = 0; i < count; i++) {
    double x = rank_of(a, count, i) - mean, y = rank_of(b, count, i) - mean;
    ab += x * y, aa += x * x, bb += y * y;
  }
  return aa > 0 && bb > 0 ? ab / sqrt(aa * bb) : (double)NAN;
}

static double correlate(const hr_offers *offers)
{
  double gemms[HR_OFFERS_MAX], work[HR_OFFERS_MAX];
  size_t count = 0;
  for (size_t i = 0; i < offers->count; i++) {
    const hr_offer *offer = &offers->offers[i];
    double per_device = offer->work_per_s.value / offer->devices;
    if (!(offer->devices > 0) || !isfinite(per_device) || !isfinite(offer->gemm_flops_per_s))
      continue;
    gemms[count] = offer->gemm_flops_per_s;
    work[count++] = per_device;
  }
  return rank_correlation(gemms, work, count);
}

/* ---- what is paid ---- */

static hr_offer_value over(hr_offer_value value, double divisor)
{
  return divisor > 0 ? (hr_offer_value){value.value / divisor, value.low / divisor, value.high / divisor}
                     : (hr_offer_value){NAN, NAN, NAN};
}

hr_status hr_offers_compare(hr_offers *offers, hr_error *error)
{
  HR_NEED(error, offers);
  HR_NEED(error, offers->offers);
  if (offers->count > HR_OFFERS_MAX || offers->figure_count > HR_OFFER_FIGURES_MAX)
    return hr_fail(error, HR_ERROR_INVALID, "offers: at most %d with %d figures, found %zu with %zu", HR_OFFERS_MAX,
                   HR_OFFER_FIGURES_MAX, offers->count, offers->figure_count);
  for (size_t i = 0; i < offers->count; i++) {
    hr_offer *offer = &offers->offers[i];
    offer->work_per_money = over(offer->work_per_s, offer->price_per_hour * offer->devices / SECONDS_PER_HOUR);
    offer->work_per_joule = over(offer->work_per_s, offer->power_w * offer->devices);
    offer->gemm_flops_per_s = gemm_rate(offer);
  }
  offers->rank_correlation = correlate(offers);
  return HR_OK;
}
