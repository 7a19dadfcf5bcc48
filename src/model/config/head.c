/* SPDX-License-Identifier: Apache-2.0 */
/* What follows the layers, by the class in "architectures". */
#include "model/config/families.h"
#include "model/layers/sizes.h"

#include <inttypes.h>
#include <string.h>

/* The ends of the names of Hugging Face's classes. */
static const struct head_row {
  const char *end;
  hr_head head;
  bool bias;
} rows[] = {
    {"ForCausalLM", HR_HEAD_LANGUAGE, false},
    {"LMHeadModel", HR_HEAD_LANGUAGE, false},
    {"ForConditionalGeneration", HR_HEAD_LANGUAGE, false},
    {"ForVision2Seq", HR_HEAD_LANGUAGE, false},
    {"ForSequenceClassification", HR_HEAD_CLASSES, false},
    {"ForTokenClassification", HR_HEAD_CLASSES, true},
    {"ForQuestionAnswering", HR_HEAD_CLASSES, true},
    {"ChatGLMModel", HR_HEAD_LANGUAGE, false},      /* the class that "AutoModel" loads is the language model */
    {"LMHeadCustomModel", HR_HEAD_LANGUAGE, false}, /* SantaCoder */
    {"DoubleHeadsModel", HR_HEAD_NONE, false},      /* refused below */
    {"Model", HR_HEAD_NONE, false},
};

static bool ends_with(const char *text, const char *end)
{
  size_t length = strlen(text), tail = strlen(end);
  return length >= tail && strcmp(text + length - tail, end) == 0;
}

/* Where the labels are: a wrapper's count for the whole model. */
static hr_json_reader labels_of(const hr_config *config)
{
  hr_json_reader json = config->json;
  if (json_object_get(config->outer, "id2label") || json_object_get(config->outer, "num_labels")) {
    json.object = config->outer;
    json.path = "";
  }
  return json;
}

/* A head has as many classes as id2label, else num_labels, else the base class's two. */
static hr_status read_classes(hr_config *config, bool answers, int64_t *classes)
{
  hr_json_reader json = labels_of(config);
  size_t labels = json_object_size(json_object_get(json.object, "id2label"));
  *classes = 2;
  if (answers) /* the answer's first and last token */
    return HR_OK;
  if (labels == 0)
    return hr_json_integer_or(&json, "num_labels", 1, HR_MODEL_SIZE_MAX, 2, classes);
  *classes = (int64_t)labels;
  return HR_OK;
}

hr_status hr_note_prediction_layers(hr_config *config)
{
  static const char *const fields[] = {"num_nextn_predict_layers", "num_mtp_layers", "num_mtp_modules",
                                       "mtp_num_layers", "mtp_num_hidden_layers"};
  for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
    int64_t layers = 0;
    hr_config_mark(config, fields[i]);
    HR_TRY(hr_json_integer_or(&config->json, fields[i], 0, HR_MODEL_SIZE_MAX, 0, &layers));
    if (layers > 0)
      hr_config_note_left_out(
          config, "%s: the %" PRId64 " layer%s further tokens (multi-token prediction) %s not counted", fields[i],
          layers, layers == 1 ? " that predicts" : "s that predict", layers == 1 ? "is" : "are");
  }
  return HR_OK;
}

hr_status hr_read_head(hr_config *config, const hr_family *family, const char *architecture, hr_model *model)
{
  if (!architecture || strcmp(architecture, family->architecture) == 0)
    return HR_OK;
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    if (!ends_with(architecture, rows[i].end))
      continue;
    if (ends_with(architecture, "RewardModel") || ends_with(architecture, "DoubleHeadsModel"))
      break;
    if (rows[i].head == HR_HEAD_LANGUAGE)
      return HR_OK;
    model->head = rows[i].head;
    model->logit_bias = rows[i].bias;
    if (model->head == HR_HEAD_NONE)
      return HR_OK;
    return read_classes(config, ends_with(architecture, "ForQuestionAnswering"), &model->classes);
  }
  return hr_json_fail(
      &config->json, "architectures", HR_ERROR_UNSUPPORTED,
      "\"%.60s\" has a head that is not supported; supported are language models, models without a head, "
      "and classification of sequences and tokens",
      architecture);
}
