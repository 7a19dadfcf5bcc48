/* What the reports of all commands share: how a document begins and ends, and the JSON of the common structs. */
#ifndef HR_REPORT_DOCUMENT_H
#define HR_REPORT_DOCUMENT_H

#include "report/table.h"

#include <headroom/measure.h>

#include <locale.h>

/** Numbers are written with a point whatever the process's locale: begin before the first number, end after the last.
 *  hr_document_end() gives HR_ERROR_OUTPUT with the system's reason if the stream failed; else it returns `status`. */
typedef struct hr_document {
  FILE *out;
  const hr_report_options *options;
  locale_t own, previous;
} hr_document;

hr_status hr_document_begin(hr_document *document, FILE *out, const hr_report_options *options, hr_error *error);
hr_status hr_document_end(hr_document *document, hr_status status, hr_error *error);

/** An object that is being built. All objects of a document share `failed`, so that only the end need be checked. */
typedef struct hr_json {
  json_t *object;
  bool *failed;
} hr_json;

/** The document of a command, with `schema` and `version`. The caller gives it to hr_json_write(). */
hr_json hr_json_document(const char *command, bool *failed);

/** Adds a member. A NaN or infinity becomes null, a NULL text too; text that is not UTF-8 is cleaned. */
void hr_json_put(hr_json json, const char *key, json_t *value);
void hr_json_put_number(hr_json json, const char *key, double value);
void hr_json_put_count(hr_json json, const char *key, int64_t value);
void hr_json_put_flag(hr_json json, const char *key, bool value);
void hr_json_put_text(hr_json json, const char *key, const char *text);

/** Adds an empty object as a member and returns it. */
hr_json hr_json_put_object(hr_json json, const char *key);

/** Adds the table's rows as a list, and frees the table. */
void hr_json_put_table(hr_json json, const char *key, hr_table *table);

/** Writes the document and frees it. HR_ERROR_OUT_OF_MEMORY if building it failed. */
hr_status hr_json_write(FILE *out, hr_json document, hr_error *error);

void hr_json_put_model(hr_json document, const hr_model *model);
void hr_json_put_workload(hr_json document, const hr_workload *workload);
void hr_json_put_hardware(hr_json document, const hr_hardware *hardware); /* NULL is written as null */
void hr_json_put_memory(hr_json document, const hr_memory *memory);

/** "label     text" with the label in 14 columns and the text wrapped; in Markdown a list item. */
void hr_put_field(const hr_document *document, const char *label, const char *format, ...) HR_PRINTF(3, 4);

/** What a measurement's median_low_ns and median_high_ns are the ends of: "95% interval", or of few samples "all
 *  from". */
const char *hr_interval_words(const hr_measurement *m);

/** A heading of a section of a table or Markdown document, with an empty line before it. */
void hr_put_heading(const hr_document *document, const char *format, ...) HR_PRINTF(2, 3);

/** A paragraph, wrapped. */
void hr_put_paragraph(const hr_document *document, const char *text);

/** Writes a table and frees it. */
hr_status hr_put_table(const hr_document *document, hr_table *table, hr_error *error);

/** The lines that describe a model, a device and a workload at the head of a document. */
void hr_put_model(const hr_document *document, const hr_model *model);
void hr_put_hardware(const hr_document *document, const hr_hardware *hardware);
void hr_put_workload(const hr_document *document, const hr_workload *workload);

/** The operators of a step. `step` may be NULL: then what was predicted is left out. */
hr_table *hr_operator_table(const hr_operators *operators, const hr_step *step, const hr_model *model,
                            const hr_workload *workload, bool products_only);

/** "8192×7680×2560 ×128" (the batch only where it is not 1), "q 2048, kv 2048, 32/8/8 × 128" or "". */
void hr_write_operator_size(char *to, size_t size, const hr_operator *op);

/** m, n, k and batch as four counts; of a fused attention queries, keys, size of a head of Q and K, heads of all
 *  sequences; of what is neither that nor a product none. */
void hr_put_operator_sizes(hr_table *table, const hr_operator *op);

/** A product or a fused attention as the store says it ("gemm m=…"); empty for other operators. */
void hr_write_operator_problem(char *to, size_t size, const hr_operator *op);

#endif
