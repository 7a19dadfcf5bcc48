#include "report/document.h"

#include "base/error.h"
#include "base/names.h"
#include "report/text.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <string.h>

#define SAMPLES_FOR_INTERVAL 6 /* docs/measuring.md */

static const char *const format_names[] = {
    [HR_FORMAT_TABLE] = "table", [HR_FORMAT_JSON] = "json", [HR_FORMAT_CSV] = "csv", [HR_FORMAT_MARKDOWN] = "markdown"};

hr_status hr_format_parse(const char *name, hr_format *format)
{
  HR_NEED(NULL, name, format);
  int value;
  hr_status status = hr_name_find(format_names, sizeof format_names / sizeof *format_names, name, &value);
  if (status == HR_OK)
    *format = (hr_format)value;
  return status;
}

static const char *const csv_names[] = {
    [HR_CSV_FINDINGS] = "findings", [HR_CSV_OPERATORS] = "operators", [HR_CSV_MEASUREMENTS] = "measurements"};

hr_status hr_csv_table_parse(const char *name, hr_csv_table *table)
{
  HR_NEED(NULL, name, table);
  int value;
  hr_status status = hr_name_find(csv_names, sizeof csv_names / sizeof *csv_names, name, &value);
  if (status == HR_OK)
    *table = (hr_csv_table)value;
  return status;
}

hr_report_options hr_report_options_default(void)
{
  return (hr_report_options){.struct_size = sizeof(hr_report_options), .format = HR_FORMAT_TABLE};
}

hr_status hr_document_begin(hr_document *document, FILE *out, const hr_report_options *options, hr_error *error)
{
  HR_TRY(hr_check_struct_size("hr_report_options", options->struct_size, sizeof(hr_report_options), error));
  *document = (hr_document){.out = out, .options = options, .own = newlocale(LC_NUMERIC_MASK, "C", (locale_t)0)};
  if (document->own == (locale_t)0)
    return hr_fail(error, HR_ERROR_OUT_OF_MEMORY, "memory ran out while writing the report");
  document->previous = uselocale(document->own);
  return HR_OK;
}

hr_status hr_document_end(hr_document *document, hr_status status, hr_error *error)
{
  char text[HR_REASON_SIZE];
  errno = 0;
  int flushed = fflush(document->out);
  int reason = errno;
  uselocale(document->previous);
  freelocale(document->own);
  if (status == HR_OK && (flushed != 0 || ferror(document->out)))
    return hr_fail(error, HR_ERROR_OUTPUT, "%s", reason ? hr_reason(reason, text) : "the output cannot be written");
  return status;
}

#define LABEL_WIDTH 14

void hr_put_field(const hr_document *document, const char *label, const char *format, ...)
{
  char text[1024], clean[1024];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  hr_copy_text(clean, sizeof clean, text);
  if (document->options->format == HR_FORMAT_MARKDOWN) {
    fprintf(document->out, "- **%s**: %s\n", label, clean);
    return;
  }
  hr_style_begin(document->out, document->options, HR_STYLE_DIM);
  fprintf(document->out, "%-*s", LABEL_WIDTH, label);
  hr_style_end(document->out, document->options, HR_STYLE_DIM);
  hr_text_wrap(document->out, clean, LABEL_WIDTH, LABEL_WIDTH, document->options->width);
}

const char *hr_interval_words(const hr_measurement *m)
{
  return m->samples < SAMPLES_FOR_INTERVAL ? "all from" : "95% interval";
}

void hr_put_heading(const hr_document *document, const char *format, ...)
{
  char text[256], clean[256];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  hr_copy_text(clean, sizeof clean, text);
  if (document->options->format == HR_FORMAT_MARKDOWN) {
    fprintf(document->out, "\n## %s\n\n", clean);
    return;
  }
  fprintf(document->out, "\n");
  hr_style_begin(document->out, document->options, HR_STYLE_BOLD);
  fprintf(document->out, "%s", clean);
  hr_style_end(document->out, document->options, HR_STYLE_BOLD);
  fprintf(document->out, "\n");
}

void hr_put_paragraph(const hr_document *document, const char *text)
{
  hr_text_wrap(document->out, text, 0, 0, document->options->width);
}

hr_status hr_put_table(const hr_document *document, hr_table *table, hr_error *error)
{
  hr_status status = hr_table_write(table, document->out, document->options, error);
  hr_table_free(table);
  return status;
}

static const char *plural(int64_t count)
{
  return count == 1 ? "" : "s";
}

/* "32 query heads of 80", with K, V heads where they differ. */
static void write_heads(char *to, size_t size, const hr_model *model)
{
  int used =
      snprintf(to, size, "%" PRId64 " head%s of %" PRId64, model->q_heads, plural(model->q_heads), model->qk_dim);
  if (used < 0 || (size_t)used >= size)
    return;
  if (model->v_dim != model->qk_dim)
    used += snprintf(to + used, size - (size_t)used, " (values %" PRId64 ")", model->v_dim);
  if ((size_t)used >= size)
    return;
  if (model->k_heads != model->v_heads)
    snprintf(to + used, size - (size_t)used, ", %" PRId64 " K head%s, %" PRId64 " V head%s", model->k_heads,
             plural(model->k_heads), model->v_heads, plural(model->v_heads));
  else if (model->k_heads != model->q_heads)
    snprintf(to + used, size - (size_t)used, ", %" PRId64 " KV head%s", model->k_heads, plural(model->k_heads));
}

void hr_put_model(const hr_document *document, const hr_model *model)
{
  char heads[160], vocabulary[HR_NUMBER_SIZE];
  write_heads(heads, sizeof heads, model);
  hr_write_count(vocabulary, sizeof vocabulary, model->vocabulary);
  hr_put_field(document, "model", "%s", model->name);
  hr_put_field(
      document, "shape", "%s: %" PRId64 " layer%s, hidden %" PRId64 ", %s, MLP %" PRId64 " (%s%s%s), vocabulary %s%s",
      strcmp(model->family, "short") == 0 ? "short form" : model->family, model->layers, plural(model->layers),
      model->hidden, heads, model->mlp_width, model->mlp_gated ? "gated " : "", model->activation,
      model->parallel_block ? ", beside the attention" : "", vocabulary, model->tied_embeddings ? " (tied)" : "");
}

void hr_put_hardware(const hr_document *document, const hr_hardware *hardware)
{
  static const char *const rates[] = {[HR_CALIBRATION_ESTIMATED] = "rates estimated",
                                      [HR_CALIBRATION_DATASHEET] = "rates from the datasheet",
                                      [HR_CALIBRATION_PUBLISHED] = "rates from published measurements",
                                      [HR_CALIBRATION_MEASURED] = "rates measured"};
  char memory[HR_NUMBER_SIZE];
  hr_write_bytes(memory, sizeof memory, (double)hardware->memory_bytes);
  hr_put_field(document, "device", "%s: %s, %s, %s", hardware->name, hardware->product, memory,
               hr_name_of(rates, sizeof rates / sizeof *rates, (int)hardware->calibration));
}

void hr_put_workload(const hr_document *document, const hr_workload *workload)
{
  char length[96];
  if (workload->phase == HR_PHASE_DECODE)
    snprintf(length, sizeof length, "1 token over %" PRId64, workload->context);
  else
    snprintf(length, sizeof length, "%" PRId64 " tokens", workload->sequence);
  char devices[96] = "";
  int64_t t = workload->tensor_parallel, p = workload->pipeline_stages;
  if (t != 1 || p != 1)
    snprintf(devices, sizeof devices, ", tensor parallel %" PRId64 ", pipeline stages %" PRId64, t, p);
  hr_put_field(document, "workload", "%s in %s, %" PRId64 " × %s, attention %s%s", hr_phase_name(workload->phase),
               hr_dtype_name(workload->dtype), workload->batch, length, hr_attention_form_name(workload->attention),
               devices);
}
