/* SPDX-License-Identifier: Apache-2.0 */
/* Weights of a checkpoint in a folder: tensors by their names, with the files' bytes; files that are refused. */
#include "checkpoint_files.h"

#include <headroom/experimental/weights.h>

static hr_weights *weights;

static void assert_tensor(const char *name, hr_tensor_format format, int64_t rows, int64_t columns, int first,
                          int64_t bytes)
{
  hr_weights_tensor tensor;
  assert_ok(hr_weights_find(weights, name, &tensor, &error), error);
  assert_string_equal(tensor.name, name);
  assert_int_equal(tensor.format, format);
  assert_int_equal(tensor.rank, 2);
  assert_int_equal(tensor.dims[0], rows);
  assert_int_equal(tensor.dims[1], columns);
  assert_int_equal(tensor.bytes, bytes);
  for (int64_t i = 0; i < bytes; i++)
    assert_int_equal(((const unsigned char *)tensor.data)[i], (first + i) & 0xff);
}

static void assert_not_opened(hr_status status, const char *message)
{
  weights = NULL;
  hr_status found = hr_weights_open(folder, &weights, &error);
  if (found != status || !strstr(error.message, message) || strchr(error.message, '\n'))
    fail_msg("%s: expected \"%s\", found \"%s\"", hr_status_name(status), message,
             found == HR_OK ? "no error" : error.message);
  assert_null(weights);
}

static void a_tensor_has_the_format_shape_and_bytes_of_the_file(void **state)
{
  (void)state;
  begin_file();
  put_tensor("z", "U8", 8, "1,3", 3);
  put_tensor("a", "F32", 32, "2,2", 4); /* at an odd address */
  put_tensor("m", "BF16", 16, "3,1", 3);
  end_file("model.safetensors");
  fill_file("model.safetensors");
  assert_ok(hr_weights_open(folder, &weights, &error), error);
  assert_tensor("z", HR_TENSOR_UINT8, 1, 3, 1, 3);
  assert_tensor("a", HR_TENSOR_FP32, 2, 2, 4, 16);
  assert_tensor("m", HR_TENSOR_BF16, 3, 1, 20, 6);
  hr_weights_close(weights);
}

static void a_scalar_and_a_tensor_without_elements_are_found(void **state)
{
  (void)state;
  hr_weights_tensor tensor;
  begin_file();
  put_tensor("scalar", "F32", 32, "", 1);
  put_tensor("empty", "F16", 16, "0,7", 0);
  end_file("model.safetensors");
  assert_ok(hr_weights_open(folder, &weights, &error), error);
  assert_ok(hr_weights_find(weights, "scalar", &tensor, &error), error);
  assert_int_equal(tensor.rank, 0);
  assert_int_equal(tensor.bytes, 4);
  assert_ok(hr_weights_find(weights, "empty", &tensor, &error), error);
  assert_int_equal(tensor.dims[1], 7);
  assert_int_equal(tensor.bytes, 0);
  hr_weights_close(weights);
}

static void a_name_that_the_checkpoint_lacks_is_not_found(void **state)
{
  (void)state;
  hr_weights_tensor tensor = {.bytes = -1};
  begin_file();
  put("model.norm.weight", 8);
  end_file("model.safetensors");
  assert_ok(hr_weights_open(folder, &weights, &error), error);
  assert_int_equal(hr_weights_find(weights, "model.norm.weigh", &tensor, &error), HR_ERROR_NOT_FOUND);
  assert_string_equal(error.message, "the checkpoint has no tensor \"model.norm.weigh\"");
  assert_int_equal(tensor.bytes, -1);
  hr_weights_close(weights);
  hr_weights_close(NULL);
}

static void tensors_of_all_shards_are_found_each_in_its_own(void **state)
{
  (void)state;
  char name[64];
  for (int i = 1; i <= 3; i++) {
    snprintf(name, sizeof name, "model-%05d-of-00003.safetensors", i);
    begin_file();
    for (int j = 0; j < 300; j++) { /* more than the first allocations hold */
      char tensor[32];
      snprintf(tensor, sizeof tensor, "t%d", 3 * j + i);
      put_tensor(tensor, "U8", 8, "1,2", 2);
    }
    end_file(name);
    fill_file(name);
  }
  assert_ok(hr_weights_open(folder, &weights, &error), error);
  for (int i = 1; i <= 3; i++) {
    for (int j = 0; j < 300; j++) {
      snprintf(name, sizeof name, "t%d", 3 * j + i);
      assert_tensor(name, HR_TENSOR_UINT8, 1, 2, 2 * j + 1, 2);
    }
  }
  hr_weights_close(weights);
}

static void a_folder_without_weights_is_not_opened(void **state)
{
  (void)state;
  assert_not_opened(HR_ERROR_NOT_FOUND, "no safetensors file is beside its config.json");
  assert_int_equal(hr_weights_open("gpt2", &weights, &error), HR_ERROR_NOT_FOUND);
}

static void damaged_files_are_not_opened(void **state)
{
  (void)state;
  put_model();
  end_file("model.safetensors");
  off_t bytes = (off_t)(8 + file.length) + file.bytes;
  assert_int_equal(truncate(path_of("model.safetensors"), bytes - 1), 0);
  assert_not_opened(HR_ERROR_UNREADABLE, "is outside of the file's 2959 bytes of tensors");
  assert_int_equal(truncate(path_of("model.safetensors"), bytes + 1), 0);
  assert_not_opened(HR_ERROR_UNREADABLE, "belongs to no tensor");
  assert_int_equal(truncate(path_of("model.safetensors"), 100), 0);
  assert_not_opened(HR_ERROR_UNREADABLE, "is truncated");
  assert_int_equal(truncate(path_of("model.safetensors"), 0), 0);
  assert_not_opened(HR_ERROR_UNREADABLE, "is truncated");
}

static void a_damaged_second_shard_is_refused_after_the_first_was_mapped(void **state)
{
  (void)state;
  for (int i = 1; i <= 2; i++) {
    char name[64];
    snprintf(name, sizeof name, "model-%05d-of-00002.safetensors", i);
    begin_file();
    put(name, 10);
    end_file(name);
  }
  assert_int_equal(truncate(path_of("model-00002-of-00002.safetensors"), 9), 0);
  assert_not_opened(HR_ERROR_UNREADABLE, "model-00002-of-00002.safetensors: is truncated");
}

static void more_dimensions_than_a_tensor_can_say_are_refused(void **state)
{
  (void)state;
  hr_weights_tensor tensor;
  begin_file();
  put_tensor("t", "U8", 8, "1,1,1,1,1,1,1,2", 2);
  end_file("model.safetensors");
  assert_ok(hr_weights_open(folder, &weights, &error), error);
  assert_ok(hr_weights_find(weights, "t", &tensor, &error), error);
  assert_int_equal(tensor.dims[7], 2);
  hr_weights_close(weights);
  begin_file();
  put_tensor("t", "U8", 8, "1,1,1,1,1,1,1,1,2", 2);
  end_file("model.safetensors");
  assert_not_opened(HR_ERROR_UNSUPPORTED, "t: has 9 dimensions, at most 8 are read");
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      IN_FOLDER(a_tensor_has_the_format_shape_and_bytes_of_the_file),
      IN_FOLDER(a_scalar_and_a_tensor_without_elements_are_found),
      IN_FOLDER(a_name_that_the_checkpoint_lacks_is_not_found),
      IN_FOLDER(tensors_of_all_shards_are_found_each_in_its_own),
      IN_FOLDER(a_folder_without_weights_is_not_opened),
      IN_FOLDER(damaged_files_are_not_opened),
      IN_FOLDER(a_damaged_second_shard_is_refused_after_the_first_was_mapped),
      IN_FOLDER(more_dimensions_than_a_tensor_can_say_are_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
