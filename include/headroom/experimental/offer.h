/* SPDX-License-Identifier: Apache-2.0 */
/* The same work on several devices, with their prices. docs/buying.md explains it. Thread safety: values; pure
 * functions. */
#ifndef HEADROOM_EXPERIMENTAL_OFFER_H
#define HEADROOM_EXPERIMENTAL_OFFER_H

#include <headroom/predict.h>

#ifdef __cplusplus
extern "C" {
#endif

#define HR_OFFERS_MAX 16
#define HR_OFFER_FIGURES_MAX 16

typedef enum hr_offer_unit {
  HR_OFFER_COUNT, /* a whole number */
  HR_OFFER_TIME,  /* ns */
  HR_OFFER_BYTES,
  HR_OFFER_SHARE, /* 0 … 1 */
  HR_OFFER_NUMBER
} hr_offer_unit;

/** What an offer says beside its work: "ttft_ns", "TTFT". Static storage. */
typedef struct hr_offer_figure {
  const char *key, *title;
  hr_offer_unit unit;
} hr_offer_figure;

/** A figure with the band of its prediction; NAN: not known. */
typedef struct hr_offer_value {
  double value, low, high;
} hr_offer_value;

/** A device, and what one plan does with as many of them as it takes. */
typedef struct hr_offer {
  const hr_hardware *hardware;
  double price_per_hour;     /* of a device, in any currency; NAN: not given */
  double power_w;            /* of a device; NAN: not known */
  hr_dtype dtype;            /* of its GEMMs */
  double devices;            /* of the plan, on average; 0: there is none */
  hr_offer_value work_per_s; /* of all of them */
  hr_offer_value figures[HR_OFFER_FIGURES_MAX];
  char words[96]; /* "" if there are none */
  char why[256];  /* why there is no plan, or what is wrong with it; else "" */

  /* Set by hr_offers_compare(). */
  hr_offer_value work_per_money, work_per_joule;
  double gemm_flops_per_s; /* of a set of GEMMs, on one device */
} hr_offer;

typedef struct hr_offers {
  const char *command;     /* whose analysis it is */
  const char *about;       /* what the work is, in words */
  const hr_model *model;   /* NULL: none */
  bool tokens;             /* the unit of work; false: FLOP */
  const char *words_title; /* NULL: there are no words */
  const hr_offer_figure *figures;
  size_t figure_count; /* at most HR_OFFER_FIGURES_MAX */
  hr_offer *offers;
  size_t count;            /* at most HR_OFFERS_MAX */
  double rank_correlation; /* set by hr_offers_compare() */
} hr_offers;

/** A device without a price, at its power limit, with nothing that it does. */
HR_API hr_offer hr_offer_of(const hr_hardware *hardware);

/** Sets what offers do for money and energy, the rate of their GEMMs, and Spearman's rank correlation of these rates
 *  with the work of a device (NAN with less than two plans, or if all are equal). The GEMMs are those of a
 *  transformer's layer, forward, of hidden sizes 2048, 4096 and 8192 and of 8192 tokens: QKV, projection, MLP up and
 *  down (Anthony et al. 2024, table II), FLOPs over their time. Section VIII there takes such GEMMs as the indicator of
 *  whole steps. HR_ERROR_INVALID for more offers or figures than fit. */
HR_API hr_status hr_offers_compare(hr_offers *offers, hr_error *error);

#ifdef __cplusplus
}
#endif
#endif
