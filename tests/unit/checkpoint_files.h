/* SPDX-License-Identifier: Apache-2.0 */
/* Makes a folder with a configuration and safetensors files, whose tensors are holes. */
#ifndef TEST_CHECKPOINT_FILES_H
#define TEST_CHECKPOINT_FILES_H
#include "test.h"

#include <headroom/experimental/resolve.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static char folder[64];
static hr_error error;

/* llama, untied: 2 layers of 4·8² attention, 3·8·16 MLP and 2·8 norms, a final norm of 8, two tables of 10·8:
 * 2·(256 + 384 + 16) + 8 + 160 = 1480. */
static const char config[] = "{\"model_type\":\"llama\",\"hidden_size\":8,\"num_hidden_layers\":2,"
                             "\"num_attention_heads\":2,\"intermediate_size\":16,\"vocab_size\":10,"
                             "\"max_position_embeddings\":32,\"tie_word_embeddings\":%s}";

static inline const char *path_of(const char *name)
{
  static char path[192];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  return path;
}

static inline void write_text(const char *name, const char *text)
{
  FILE *file = fopen(path_of(name), "w");
  assert_non_null(file);
  assert_int_equal(fwrite(text, 1, strlen(text), file), strlen(text));
  assert_int_equal(fclose(file), 0);
}

static inline int make_folder(void **state)
{
  (void)state;
  char text[512];
  strcpy(folder, "/tmp/headroom-tensors-XXXXXX");
  assert_non_null(mkdtemp(folder));
  snprintf(text, sizeof text, config, "false");
  write_text("config.json", text);
  return 0;
}

static inline int remove_folder(void **state)
{
  (void)state;
  char command[96];
  snprintf(command, sizeof command, "rm -rf %s", folder);
  return system(command);
}

/* A safetensors file in the making: entries of its header, and the bytes of its tensors. */
static struct {
  char header[65536];
  size_t length;
  int64_t bytes;
} file;

static inline void begin_file(void)
{
  file.length = 1;
  file.bytes = 0;
  strcpy(file.header, "{");
}

static inline void put_tensor(const char *name, const char *format, int bits, const char *shape, int64_t elements)
{
  int64_t end = file.bytes + elements * bits / 8;
  int length = snprintf(file.header + file.length, sizeof file.header - file.length,
                        "%s\"%s\":{\"dtype\":\"%s\",\"shape\":[%s],\"data_offsets\":[%" PRId64 ",%" PRId64 "]}",
                        file.length > 1 ? "," : "", name, format, shape, file.bytes, end);
  assert_true(length > 0 && (size_t)length < sizeof file.header - file.length - 1);
  file.length += (size_t)length;
  file.bytes = end;
}

static inline void put(const char *name, int64_t elements)
{
  char shape[32];
  snprintf(shape, sizeof shape, "%" PRId64, elements);
  put_tensor(name, "BF16", 16, shape, elements);
}

/* The tensors' bytes are a hole in the file: reading headers does not need them. */
static inline void end_file(const char *name)
{
  file.header[file.length++] = '}';
  file.header[file.length] = '\0';
  FILE *out = fopen(path_of(name), "w");
  assert_non_null(out);
  for (int i = 0; i < 8; i++)
    assert_int_not_equal(fputc((int)(file.length >> 8 * i & 0xff), out), EOF);
  assert_int_equal(fwrite(file.header, 1, file.length, out), file.length);
  assert_int_equal(fclose(out), 0);
  assert_int_equal(truncate(path_of(name), (off_t)(8 + file.length) + file.bytes), 0);
}

/* Byte i of a finished file's tensors becomes the low byte of i + 1. */
static inline void fill_file(const char *name)
{
  FILE *out = fopen(path_of(name), "r+");
  assert_non_null(out);
  assert_int_equal(fseek(out, (long)(8 + file.length), SEEK_SET), 0);
  for (int64_t i = 0; i < file.bytes; i++)
    assert_int_not_equal(fputc((int)(i + 1) & 0xff, out), EOF);
  assert_int_equal(fclose(out), 0);
}

static inline void put_layers(int layers)
{
  for (int i = 0; i < layers; i++) {
    static const struct {
      const char *name;
      int64_t elements;
    } weights[] = {
        {"self_attn.q_proj.weight", 64}, {"self_attn.k_proj.weight", 64}, {"self_attn.v_proj.weight", 64},
        {"self_attn.o_proj.weight", 64}, {"mlp.gate_proj.weight", 128},   {"mlp.up_proj.weight", 128},
        {"mlp.down_proj.weight", 128},   {"input_layernorm.weight", 8},   {"post_attention_layernorm.weight", 8}};
    for (size_t j = 0; j < sizeof weights / sizeof *weights; j++) {
      char name[96];
      snprintf(name, sizeof name, "model.layers.%d.%s", i, weights[j].name);
      put(name, weights[j].elements);
    }
  }
  put("model.norm.weight", 8);
}

static inline void put_model(void)
{
  begin_file();
  put("model.embed_tokens.weight", 80);
  put_layers(2);
  put("lm_head.weight", 80);
}

static hr_checkpoint sums;

/* Reads and compares the folder's checkpoint. */
static inline hr_checkpoint_comparison compare(void)
{
  hr_model model;
  hr_checkpoint_comparison comparison;
  assert_ok(hr_resolve_model(folder, NULL, NULL, &model, &error), error);
  assert_ok(hr_resolve_checkpoint(folder, &sums, &error), error);
  assert_ok(hr_checkpoint_compare(&sums, &model, &comparison, &error), error);
  return comparison;
}

#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, make_folder, remove_folder)

#endif
