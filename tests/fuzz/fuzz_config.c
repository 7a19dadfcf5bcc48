/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a model's configuration: a clear error, or a valid model. */
#include "fuzz.h"
#include "properties.h"

#include "expect.h"

#include <string.h>

static void expect_note(void *context, hr_note_kind kind, const char *message)
{
  (void)kind;
  size_t *notes = context;
  ++*notes;
  EXPECT(message && message[0] != '\0');
  expect_printable(message);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  hr_model model = {.hidden = -7};
  hr_error error = {.status = HR_OK};
  size_t notes = 0, silent_notes = 0;
  hr_status status = hr_model_from_json(&(hr_input){.text = (const char *)data, .length = size, .name = "config.json"},
                                        expect_note, &notes, &model, &error);
  if (status != HR_OK) {
    expect_clear_failure(status, &error);
    EXPECT(model.hidden == -7);
    EXPECT(hr_model_from_json(&(hr_input){.text = (const char *)data, .length = size, .name = "config.json"}, NULL,
                              NULL, &model, NULL) == status);
    return 0;
  }
  EXPECT(model.struct_size == sizeof model);
  EXPECT(hr_model_check(&model, &error) == HR_OK);
  EXPECT(memchr(model.family, '\0', sizeof model.family) && memchr(model.activation, '\0', sizeof model.activation));
  expect_printable(model.name);
  expect_printable(model.family);
  expect_printable(model.activation);
  hr_model again;
  EXPECT(hr_model_from_json(&(hr_input){.text = (const char *)data, .length = size, .name = "config.json"}, expect_note,
                            &silent_notes, &again, NULL) == HR_OK);
  EXPECT(notes == silent_notes);
  return 0;
}
