/* SPDX-License-Identifier: Apache-2.0 */
#include "report/checkpoint.h"

#include "base/quantity.h"
#include "report/lines.h"

#include <inttypes.h>

/* "bf16 14.9 GiB, fp32 1.00 KiB", the largest first. */
static void write_formats(char *to, size_t size, const hr_checkpoint *checkpoint)
{
  bool written[HR_TENSOR_FORMAT_COUNT] = {false};
  to[0] = '\0';
  for (;;) {
    int largest = -1;
    for (int i = 0; i < HR_TENSOR_FORMAT_COUNT; i++) {
      bool next = checkpoint->format_tensors[i] > 0 && !written[i];
      if (next && (largest < 0 || checkpoint->format_bytes[i] > checkpoint->format_bytes[largest]))
        largest = i;
    }
    if (largest < 0)
      return;
    char bytes[HR_NUMBER_SIZE];
    hr_write_bytes(bytes, sizeof bytes, (double)checkpoint->format_bytes[largest]);
    hr_append_item(to, size, "%s %s", hr_tensor_format_name((hr_tensor_format)largest), bytes);
    written[largest] = true;
  }
}

void hr_print_checkpoint(const hr_document *document, const hr_checkpoint *checkpoint,
                         const hr_checkpoint_comparison *comparison)
{
  char bytes[HR_NUMBER_SIZE], formats[512];
  hr_write_bytes(bytes, sizeof bytes, (double)checkpoint->bytes);
  write_formats(formats, sizeof formats, checkpoint);
  hr_print_field(document, "checkpoint", "%s in %" PRId64 " tensors of %" PRId64 " file%s: %s", bytes,
                 checkpoint->tensors, checkpoint->files, checkpoint->files == 1 ? "" : "s", formats);
  hr_print_field(document, "", "%s", comparison->text);
}

static void put_formats(hr_json json, const hr_checkpoint *checkpoint)
{
  json_t *list = json_array();
  hr_json_put(json, "formats", list);
  for (int i = 0; i < HR_TENSOR_FORMAT_COUNT; i++) {
    if (checkpoint->format_tensors[i] == 0)
      continue;
    hr_json format = hr_json_append_object(json, list);
    hr_json_put_text(format, "format", hr_tensor_format_name((hr_tensor_format)i));
    hr_json_put_count(format, "tensors", checkpoint->format_tensors[i]);
    hr_json_put_count(format, "elements", checkpoint->format_elements[i]);
    hr_json_put_count(format, "bytes", checkpoint->format_bytes[i]);
  }
}

void hr_json_put_checkpoint(hr_json document, const hr_checkpoint *checkpoint,
                            const hr_checkpoint_comparison *comparison)
{
  if (!checkpoint) {
    hr_json_put(document, "checkpoint", json_null());
    return;
  }
  hr_json json = hr_json_put_object(document, "checkpoint");
  hr_json_put_count(json, "files", checkpoint->files);
  hr_json_put_count(json, "tensors", checkpoint->tensors);
  hr_json_put_count(json, "elements", checkpoint->elements);
  hr_json_put_count(json, "bytes", checkpoint->bytes);
  put_formats(json, checkpoint);
  hr_json by_part = hr_json_put_object(json, "elements_by_part");
  for (int i = 0; i < HR_CHECKPOINT_PART_COUNT; i++)
    hr_json_put_count(by_part, hr_checkpoint_part_name((hr_checkpoint_part)i), checkpoint->part_elements[i]);
  hr_json_put_text(json, "match", hr_checkpoint_match_name(comparison->match));
  hr_json_put_count(json, "compared_elements", comparison->elements);
  json_t *left_out = json_array();
  hr_json_put(json, "left_out", left_out);
  for (int i = 0; i < HR_CHECKPOINT_PART_COUNT; i++) {
    if (comparison->left_out[i] &&
        json_array_append_new(left_out, json_string(hr_checkpoint_part_name((hr_checkpoint_part)i))) != 0)
      *json.failed = true;
  }
  hr_json_put_text(json, "text", comparison->text);
}
