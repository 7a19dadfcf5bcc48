/* SPDX-License-Identifier: Apache-2.0 */
/* Reads configurations in tests: a model or an error from a text, and its notes. */
#ifndef HEADROOM_TEST_READING_H
#define HEADROOM_TEST_READING_H

#include "test.h"

#include <headroom/model.h>

#include <stdio.h>
#include <string.h>

/** All notes of one read, one per line. */
typedef struct test_notes {
  char text[4096];
} test_notes;

static inline void keep_note(void *context, hr_note_kind kind, const char *message)
{
  (void)kind;
  test_notes *notes = context;
  size_t used = strlen(notes->text);
  snprintf(notes->text + used, sizeof notes->text - used, "%s\n", message);
}

/** The model that `text` describes; fails the test on an error. */
static inline hr_model read_model(const char *text)
{
  hr_model model;
  hr_error error;
  assert_ok(hr_model_from_json(&(hr_input){.text = text, .length = strlen(text), .name = "config.json"}, NULL, NULL,
                               &model, &error),
            error);
  return model;
}

/** All notes of reading `text`. */
static inline test_notes read_notes(const char *text)
{
  test_notes notes = {.text = ""};
  hr_model model;
  hr_error error;
  assert_ok(hr_model_from_json(&(hr_input){.text = text, .length = strlen(text), .name = "config.json"}, keep_note,
                               &notes, &model, &error),
            error);
  return notes;
}

/** Number of layers with this window; 0: with none. */
static inline int64_t layers_with_window(const hr_model *model, int64_t window)
{
  int64_t layers = 0;
  for (size_t i = 0; i < model->group_count; i++)
    layers += model->groups[i].attention.window == window ? model->groups[i].count : 0;
  return layers;
}

/** Parameters of the model that `text` describes. */
static inline hr_parameters read_parameters(const char *text)
{
  hr_model model = read_model(text);
  hr_parameters parameters;
  hr_error error;
  assert_ok(hr_model_parameters(&model, &parameters, &error), error);
  return parameters;
}

/** Asserts that `text` fails with this status and exactly this message, and that the model is not changed. */
static inline void assert_refused_bytes(const char *text, size_t length, hr_status status, const char *message)
{
  hr_model model = {.hidden = 77};
  hr_error error = {.message = ""};
  hr_status found = hr_model_from_json(&(hr_input){.text = text, .length = length, .name = "config.json"}, NULL, NULL,
                                       &model, &error);
  assert_string_equal(error.message, message);
  assert_int_equal(found, status);
  assert_int_equal(error.status, status);
  assert_int_equal(model.hidden, 77);
}

static inline void assert_refused(const char *text, hr_status status, const char *message)
{
  assert_refused_bytes(text, strlen(text), status, message);
}

#endif
