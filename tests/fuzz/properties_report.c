/* SPDX-License-Identifier: Apache-2.0 */
#include "properties.h"

#include "expect.h"

#include <jansson.h>

static void expect_json(const char *text, size_t length)
{
  json_error_t problem;
  json_t *root = json_loadb(text, length, JSON_REJECT_DUPLICATES, &problem);
  EXPECT(root);
  json_t *operators = json_object_get(root, "operators"), *operator;
  EXPECT(json_array_size(operators) > 0);
  json_int_t flops = 0;
  size_t i;
  json_array_foreach(operators, i, operator) flops +=
      json_integer_value(json_object_get(operator, "flops")) * json_integer_value(json_object_get(operator, "count"));
  EXPECT(flops == json_integer_value(json_object_get(root, "flops")));
  json_decref(root);
}

/* Tables may break lines, and nothing else may steer a terminal. */
static void expect_plain(const char *text)
{
  for (; *text; text++)
    EXPECT((unsigned char)*text >= ' ' || *text == '\n');
}

void expect_reportable(const hr_model *model, const hr_workload *workload, const hr_hardware *hardware)
{
  for (int format = HR_FORMAT_TABLE; format <= HR_FORMAT_MARKDOWN; format++) {
    char *text = NULL;
    size_t length = 0;
    FILE *out = open_memstream(&text, &length);
    EXPECT(out);
    hr_report_options options = hr_report_options_default();
    options.format = (hr_format)format;
    options.width = format == HR_FORMAT_TABLE ? 80 : 0;
    options.verbose = true;
    hr_error error = {.status = HR_OK};
    hr_status status = hr_report_description(
        out, &options, &(hr_subject){.model = model, .workload = workload, .hardware = hardware}, NULL, &error);
    fclose(out);
    if (status != HR_OK)
      expect_clear_failure(status, &error);
    else if (format == HR_FORMAT_JSON)
      expect_json(text, length);
    else
      expect_plain(text);
    free(text);
  }
}
