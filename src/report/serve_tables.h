/* SPDX-License-Identifier: Apache-2.0 */
/* The tables of `serve-plan`: its points and its layouts. */
#ifndef HR_REPORT_SERVE_TABLES_H
#define HR_REPORT_SERVE_TABLES_H

#include "report/document.h"
#include "report/json.h"

/** Every point, or those of the Pareto front, fastest for a request first. What the rows point to must outlive it. */
hr_table *hr_serve_point_table(const hr_serve_result *plan, bool front);

/** Every layout, with the largest batch that fits. */
hr_table *hr_serve_layout_table(const hr_serve_result *plan);

/** The fleets of a plan, as rows. */
hr_table *hr_serve_fleet_table(const hr_serve_result *plan);

/** Adds a point as a member, or null if it is NULL. */
void hr_json_put_serve_point(hr_json json, const char *key, const hr_serve_point *point);

/* ---- serve_plan.c ---- */

/** What weights, activations and the cache are stored in, and what GEMMs multiply. */
void hr_print_serve_formats(const hr_document *document, const hr_model *model, const hr_workload *workload,
                            const hr_hardware *hardware);
void hr_json_put_serve_formats(hr_json json, const hr_model *model, const hr_workload *workload,
                               const hr_hardware *hardware);

/** Devices that prefill, of another type. */
void hr_print_prefill_hardware(const hr_document *document, const hr_serve_options *options);
void hr_json_put_prefill(hr_json json, const hr_serve_options *options);

/* ---- serve_tables.c ---- */

/** "TTFT", "TPOT", "TTFT, TPOT": limits that the predicted times meet, but not all of their bands. NULL: none. */
const char *hr_serve_may_miss(const hr_serve_point *point);

/** Money, a double: three digits; empty if it is not finite. */
void hr_serve_money(const void *member, hr_cell *cell);

/** A count, but for 1, which is the usual one. */
void hr_serve_above_one(const void *member, hr_cell *cell);

/** A rate per second, a double, as people read it: a whole number, or three digits where it is below 100. */
void hr_serve_rate(const void *member, hr_cell *cell);

#endif
