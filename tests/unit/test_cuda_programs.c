/* SPDX-License-Identifier: Apache-2.0 */
/* Every program compiles for every supported architecture, and no state of the
 * cache on disk does harm. Some tests need NVRTC; none needs a GPU. */
#include "programs.h"

#include "runtime/cuda/driver/cache.h"
#include "runtime/cuda/experts/experts.h"
#include "runtime/cuda/rowwise/rowwise.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* Each source for each architecture in one dtype; fp8, which takes longest, on one architecture. All of these with
 * HEADROOM_TEST=thorough. */
static bool has_a_turn(int number, int architecture, int dtype)
{
  static const hr_dtype formats[] = {HR_BF16, HR_FP32, HR_FP16};
  if (test_asks_for("thorough"))
    return true;
  if (dtype == HR_FP8_E4M3)
    return architecture == number % 3;
  return (hr_dtype)dtype == formats[(number + architecture) % 3];
}

static void every_program_compiles_for_every_architecture_and_format(void **state)
{
  (void)state;
  hr_nvrtc nvrtc = open_nvrtc();
  hr_error error;
  for (const char *const *source = hr_program_sources(); *source; source++) {
    for (size_t i = 0; i < count_architectures(&nvrtc); i++) {
      for (int dtype = 0; dtype < HR_DTYPE_COUNT; dtype++) {
        if (!hr_program_takes((hr_dtype)dtype) || !has_a_turn((int)(source - hr_program_sources()), (int)i, dtype))
          continue;
        build(&nvrtc, *source, architectures[i], (hr_dtype)dtype, NULL);
      }
    }
  }
  hr_program wrong = {.source = "fill", .dtype = HR_BF16, .architecture = "sm_1"};
  char *image = NULL;
  size_t bytes = 0;
  assert_int_equal(hr_program_build(&nvrtc, &wrong, "", &image, &bytes, &error), HR_ERROR_BACKEND);
  assert_non_null(strstr(error.message, "nvrtcCompileProgram"));
  hr_nvrtc_close(&nvrtc);
}

static void copies_of_experts_multiply_with_every_tiling(void **state)
{
  (void)state;
  hr_nvrtc nvrtc = open_nvrtc();
  char defines[HR_DEFINES_SIZE];
  for (int64_t mean = 1; mean <= 1024; mean *= 2) {
    hr_grouped_defines(mean, defines);
    build(&nvrtc, "grouped_gemm_sm90", "sm_90a", mean < 64 ? HR_FP16 : HR_BF16, defines);
  }
  build(&nvrtc, "grouped_backward_sm80", "sm_80", HR_FP16, NULL);
  build(&nvrtc, "grouped_backward_sm80", "sm_89", HR_BF16, NULL);
  build(&nvrtc, "grouped_backward_sm90", "sm_90a", HR_FP16, NULL);
  build(&nvrtc, "grouped_backward_sm90", "sm_90a", HR_BF16, NULL);
  hr_nvrtc_close(&nvrtc);
}

/* Norms, tokens, loads and formats in turn. */
static void routers_of_few_tokens_compile(void **state)
{
  (void)state;
  static const hr_rowwise_operation norms[] = {HR_ROWWISE_RMS_NORM, HR_ROWWISE_LAYER_NORM, HR_ROWWISE_COUNT};
  static const hr_dtype formats[] = {HR_BF16, HR_FP32, HR_FP16};
  static const int64_t widths[] = {2048, 2044, 2051};
  hr_nvrtc nvrtc = open_nvrtc();
  char defines[HR_DEFINES_SIZE];
  for (int i = 0; i < 9; i++) {
    const int64_t k = widths[i / 3], rows = 1 + 3 * (i % 3);
    const hr_router_arguments x = {
        .route = {.active = 1 + i},
        .linear = {.rows = rows, .n = 128, .k = k, .x_stride = k, .dtype = formats[i / 2 % 3], .norm = norms[i % 3]}};
    hr_router_defines(&x, defines);
    build(&nvrtc, "experts_router", "sm_90a", x.linear.dtype, defines);
  }
  hr_nvrtc_close(&nvrtc);
}

/* Lengths for each tiling of rowwise_registers.cuh: part of a warp, a block, shared memory, longer. */
static const int64_t lengths[] = {1, 40, 129, 1024, 4099, 16384, 33001, 50257, 131072, 262145, (int64_t)1 << 32};

static hr_rowwise rows_for(int operation, int64_t columns, hr_dtype dtype)
{
  static const hr_rowwise_operation operations[] = {HR_ROWWISE_LAYER_NORM, HR_ROWWISE_SOFTMAX, HR_ROWWISE_RMS_NORM,
                                                    HR_ROWWISE_SOFTMAX};
  hr_rowwise r = hr_rowwise_default();
  r.operation = operations[operation];
  r.period = operation == 3 ? 5 : 0; /* a causal one */
  r.columns = columns;
  r.dtype = dtype;
  return r;
}

/* Every length in one operation and dtype; all of these with HEADROOM_TEST=thorough. Architectures alternate. */
static void rows_compile_with_every_tiling(void **state)
{
  (void)state;
  static const hr_dtype formats[] = {HR_BF16, HR_FP32, HR_FP16, HR_FP8_E4M3};
  static const size_t shared[] = {163 << 10, 227 << 10, 227 << 10}; /* of a block on each architecture */
  hr_nvrtc nvrtc = open_nvrtc();
  char defines[HR_DEFINES_SIZE];
  int count = (int)(sizeof lengths / sizeof *lengths);
  for (int i = 0; i < count * 4 * 4; i++) {
    int length = i % count, format = i / count % 4, operation = i / count / 4;
    if (!test_asks_for("thorough") && (format != length % 4 || operation != (length + 1 + length / 4) % 4))
      continue;
    int architecture = (length + format + operation) % (int)count_architectures(&nvrtc);
    hr_rowwise r = rows_for(operation, lengths[length], formats[format]);
    hr_rowwise_tiling tiling =
        hr_rowwise_tiling_choose(&r, length % 3 != 2, architecture == 0 ? 80 : 90, shared[architecture]);
    hr_rowwise_tiling_defines(&r, &tiling, defines);
    build(&nvrtc, hr_rowwise_source(r.operation), architectures[architecture], r.dtype, defines);
  }
  hr_nvrtc_close(&nvrtc);
}

/* Each gradient of rows in one length and dtype; all with HEADROOM_TEST=thorough. */
static void gradients_compile_with_every_tiling(void **state)
{
  (void)state;
  static const hr_rowwise_operation operations[] = {HR_ROWWISE_LAYER_NORM_BACKWARD, HR_ROWWISE_SOFTMAX_BACKWARD,
                                                    HR_ROWWISE_RMS_NORM_BACKWARD,   HR_ROWWISE_BIAS_BACKWARD,
                                                    HR_ROWWISE_CROSS_ENTROPY,       HR_ROWWISE_CROSS_ENTROPY_BACKWARD};
  static const int64_t columns[] = {40, 768, 4096, 50257, 128256};
  static const hr_dtype formats[] = {HR_BF16, HR_FP32, HR_FP16};
  hr_nvrtc nvrtc = open_nvrtc();
  char defines[HR_DEFINES_SIZE];
  for (int i = 0; i < 6 * 5 * 3; i++) {
    const int operation = i % 6, length = i / 6 % 5, format = i / 30;
    if (!test_asks_for("thorough") && (format != (operation + length) % 3 || (operation + length) % 5 > 1))
      continue;
    const int architecture = (length + operation) % (int)count_architectures(&nvrtc);
    hr_rowwise r = hr_rowwise_default();
    r.operation = operations[operation];
    r.columns = columns[length];
    r.dtype = formats[format];
    if (operation < 4) {
      const hr_rowwise_backward_tiling tiling = hr_rowwise_backward_tiling_choose(&r);
      hr_rowwise_backward_defines(&r, &tiling, defines);
    } else {
      const hr_rowwise softmax = hr_rowwise_loss_rows(&r);
      const hr_rowwise_tiling tiling = hr_rowwise_tiling_choose(&softmax, true, architecture == 0 ? 80 : 90,
                                                                architecture == 0 ? 163 << 10 : 227 << 10);
      hr_rowwise_loss_defines(&r, &tiling, defines);
    }
    build(&nvrtc, hr_rowwise_backward_source(r.operation), architectures[architecture], r.dtype, defines);
  }
  hr_nvrtc_close(&nvrtc);
}

/* A row's packs are in the registers of 32 to 512 threads, of 512 only if they do not fit. */
static void tilings_of_gradients_cover_the_row(void **state)
{
  (void)state;
  for (int64_t columns = 1; columns < 300000; columns += 1 + columns / 7) {
    for (int i = 0; i < 4; i++) {
      hr_rowwise r = hr_rowwise_default();
      r.operation = i % 2 ? HR_ROWWISE_LAYER_NORM_BACKWARD : HR_ROWWISE_SOFTMAX_BACKWARD;
      r.columns = columns;
      r.dtype = i / 2 ? HR_FP32 : HR_BF16;
      const hr_rowwise_backward_tiling t = hr_rowwise_backward_tiling_choose(&r);
      const int64_t wide = 16 / (int64_t)hr_dtype_bytes(r.dtype), packs = (columns + wide - 1) / wide;
      assert_true(t.threads >= 32 && t.threads * t.groups == 512 && t.packs >= 1 && t.packs <= 4);
      assert_true(t.threads * t.packs >= packs || (t.threads == 512 && t.packs == 4 && t.groups == 1));
    }
  }
}

/* Packs in registers and shared memory cover the row, or fill both. */
static void rowwise_tilings_fit_the_multiprocessor(void **state)
{
  (void)state;
  static const size_t shared[] = {48 << 10, 99 << 10, 163 << 10, 227 << 10};
  for (int64_t columns = 1; columns < 300000; columns += 1 + columns / 7) {
    for (int i = 0; i < 4 * 4 * 4; i++) {
      hr_rowwise r = rows_for(i % 4, columns, (const hr_dtype[]){HR_BF16, HR_FP32, HR_FP16, HR_FP8_E4M3}[i / 4 % 4]);
      size_t most = shared[i / 16];
      int capability = i / 16 == 3 ? 90 : 80;
      hr_rowwise_tiling tiling = hr_rowwise_tiling_choose(&r, columns % 3 != 0, capability, most);
      int64_t wide = 16 / (int64_t)hr_dtype_bytes(r.dtype);
      int64_t packs = (columns + (tiling.alignment == HR_ROWS_ALIGNED ? 0 : 8 * wide - 1) + wide - 1) / wide;
      assert_true(tiling.alignment != HR_ROWS_ALIGNED || columns % wide == 0);
      assert_true(tiling.threads * tiling.groups >= 32 && tiling.threads * tiling.groups <= 1024);
      assert_true(tiling.threads % 32 == 0 || (tiling.threads & (tiling.threads - 1)) == 0);
      assert_true(tiling.min_blocks >= 1 && tiling.min_blocks * tiling.threads * tiling.groups <= 2048);
      assert_true((tiling.shared_bytes + 1024) * (size_t)(tiling.shared_packs > 0 ? tiling.min_blocks : 1) <= most);
      if (tiling.staged_rows > 0) { /* of whole packs, that shared memory holds */
        assert_int_equal(tiling.staged_rows % wide, 0);
        assert_true(tiling.shared_bytes >= (size_t)tiling.staged_rows * (size_t)columns * hr_dtype_bytes(r.dtype));
        assert_true(tiling.cluster == 1 && tiling.rows == 1 && !tiling.shifted);
        continue;
      }
      assert_true(tiling.groups == 1 || (tiling.threads <= 32 && tiling.shared_packs == 0 && tiling.cluster == 1));
      assert_true(tiling.cluster == 1 || (capability == 90 && tiling.cluster <= 8));
      assert_int_equal(tiling.shared_bytes, tiling.shared_packs * tiling.rows * tiling.threads * 16);
      assert_true(tiling.shifted == (r.operation != HR_ROWWISE_SOFTMAX && columns % wide != 0));
      bool full = tiling.cluster == (capability == 90 ? 8 : 1);
      assert_true(full || tiling.cluster * tiling.threads * (tiling.register_packs + tiling.shared_packs) >= packs);
    }
  }
}

/* A thread has 16 floats of a row, and a block up to 1024 threads: 16384 columns. */
static void a_residual_with_its_norm_compiles_for_rows_of_any_length(void **state)
{
  (void)state;
  static const int64_t columns[] = {1, 768, 4099, 16384};
  static const hr_dtype formats[] = {HR_BF16, HR_FP32, HR_FP16, HR_FP8_E4M3};
  hr_nvrtc nvrtc = open_nvrtc();
  char defines[HR_DEFINES_SIZE];
  for (int i = 0; i < 16; i++) {
    hr_rowwise r = rows_for(0, columns[i / 4], formats[i % 4]);
    r.operation = i % 3 ? HR_ROWWISE_RESIDUAL_RMS_NORM : HR_ROWWISE_RESIDUAL_LAYER_NORM;
    const hr_residual_norm_tiling t = hr_residual_norm_tiling_choose(&r);
    const int64_t elements = t.packs * HR_ROWWISE_PACK_BYTES / (int64_t)hr_dtype_bytes(r.dtype);
    assert_true(t.threads % 32 == 0 && t.threads <= 1024 && elements <= 16 && t.threads * elements >= r.columns);
    hr_residual_norm_defines(&r, &t, defines);
    build(&nvrtc, "residual_norm", architectures[i % (int)count_architectures(&nvrtc)], r.dtype, defines);
  }
  hr_nvrtc_close(&nvrtc);
}

static void a_list_of_definitions_that_is_too_long_is_refused(void **state)
{
  (void)state;
  hr_nvrtc nvrtc = {.handle = NULL}; /* not reached */
  hr_error error;
  char *image = NULL;
  size_t bytes = 0;
  hr_program program = {.source = "fill", .dtype = HR_BF16, .architecture = "sm_80"};
  program.defines = "A B C D E F G H I J K L M N O P Q R S T U V W X Y";
  assert_int_equal(hr_program_build(&nvrtc, &program, "", &image, &bytes, &error), HR_ERROR_INVALID);
  assert_non_null(strstr(error.message, "too many or too long definitions"));
}

static void architectures_from_hopper_on_use_their_specific_instructions(void **state)
{
  (void)state;
  char text[16];
  hr_program_architecture(80, text);
  assert_string_equal(text, "sm_80");
  hr_program_architecture(90, text);
  assert_string_equal(text, "sm_90a");
  hr_program_architecture(100, text);
  assert_string_equal(text, "sm_100a");
}

/* ---- the cache ---- */

typedef struct cache_fixture {
  char base[64], folder[HR_CACHE_PATH_SIZE], entry[HR_CACHE_PATH_SIZE + 64];
} cache_fixture;

static const char key[] = "NVRTC 13.0 and a source", image_kept[] = "\177ELF and \0 all that";

static void find_entry(cache_fixture *f)
{
  char command[HR_CACHE_PATH_SIZE + 32];
  snprintf(command, sizeof command, "ls %.900s/*.kernel", f->folder);
  FILE *list = popen(command, "r");
  assert_non_null(list);
  assert_non_null(fgets(f->entry, sizeof f->entry, list));
  f->entry[strcspn(f->entry, "\n")] = '\0';
  pclose(list);
}

static int make_cache(void **state)
{
  static cache_fixture f;
  snprintf(f.base, sizeof f.base, "/tmp/headroom-cache-XXXXXX");
  if (!mkdtemp(f.base))
    return -1;
  snprintf(f.folder, sizeof f.folder, "%s/one/two", f.base);
  hr_cache_write(f.folder, key, image_kept, sizeof image_kept);
  find_entry(&f);
  *state = &f;
  return 0;
}

static int remove_cache(void **state)
{
  const cache_fixture *f = *state;
  char command[256];
  snprintf(command, sizeof command, "chmod -R u+rwx %s && rm -r %s", f->base, f->base);
  return system(command) == 0 ? 0 : -1;
}

static bool kept(const cache_fixture *f)
{
  char *image = NULL;
  size_t bytes = 0;
  if (!hr_cache_read(f->folder, key, &image, &bytes))
    return false;
  assert_int_equal(bytes, sizeof image_kept);
  assert_memory_equal(image, image_kept, bytes);
  free(image);
  return true;
}

static void an_image_is_found_again_by_its_key_and_by_no_other(void **state)
{
  const cache_fixture *f = *state;
  char *image = NULL;
  size_t bytes = 0;
  assert_true(kept(f));
  assert_false(hr_cache_read(f->folder, "NVRTC 13.1 and a source", &image, &bytes));
  assert_false(hr_cache_read("", key, &image, &bytes));
  assert_false(hr_cache_read("/nowhere/at/all", key, &image, &bytes));
  hr_cache_write("", key, image_kept, sizeof image_kept);
  hr_cache_write("/proc/nowhere", key, image_kept, sizeof image_kept);
}

static void the_cache_is_readable_by_its_user_only(void **state)
{
  const cache_fixture *f = *state;
  struct stat about;
  assert_int_equal(stat(f->folder, &about), 0);
  assert_int_equal(about.st_mode & 0777, 0700);
  assert_int_equal(stat(f->entry, &about), 0);
  assert_int_equal(about.st_mode & 0777, 0600);
}

/* The entry with one byte changed, at each place, and truncated at each length. */
static void a_damaged_or_truncated_entry_is_not_used(void **state)
{
  const cache_fixture *f = *state;
  char whole[1024], changed[1024];
  FILE *file = fopen(f->entry, "rb");
  size_t bytes = fread(whole, 1, sizeof whole, file);
  fclose(file);
  assert_true(bytes > sizeof image_kept && bytes < sizeof whole);
  for (size_t at = 0; at < bytes; at++) {
    memcpy(changed, whole, bytes);
    changed[at] ^= 1;
    file = fopen(f->entry, "wb");
    fwrite(changed, 1, bytes, file);
    fclose(file);
    assert_false(kept(f));
    assert_int_equal(truncate(f->entry, (off_t)at), 0);
    assert_false(kept(f));
  }
  hr_cache_write(f->folder, key, image_kept, sizeof image_kept); /* as after the rebuild */
  assert_true(kept(f));
}

static void an_entry_that_others_could_have_written_is_not_used(void **state)
{
  const cache_fixture *f = *state;
  assert_int_equal(chmod(f->entry, 0666), 0);
  assert_false(kept(f));
  assert_int_equal(chmod(f->entry, 0600), 0);
  assert_true(kept(f));
  assert_int_equal(chmod(f->folder, 0777), 0);
  assert_false(kept(f));
  assert_int_equal(chmod(f->folder, 0700), 0);
  if (geteuid() == 0) { /* only root can change a file's owner */
    assert_int_equal(chown(f->entry, 12345, 12345), 0);
    assert_false(kept(f));
    assert_int_equal(chown(f->entry, 0, 0), 0);
    assert_int_equal(chown(f->folder, 12345, 12345), 0);
    assert_false(kept(f));
    assert_int_equal(chown(f->folder, 0, 0), 0);
  }
  char elsewhere[HR_CACHE_PATH_SIZE + 80];
  snprintf(elsewhere, sizeof elsewhere, "%s.moved", f->entry);
  assert_int_equal(rename(f->entry, elsewhere), 0);
  assert_int_equal(symlink(elsewhere, f->entry), 0);
  assert_false(kept(f));
  assert_int_equal(unlink(f->entry), 0);
  assert_int_equal(mkfifo(f->entry, 0600), 0); /* must not block */
  assert_false(kept(f));
}

/* Readers beside concurrent writers: a reader finds the whole image or none. */
static void writers_at_the_same_time_leave_a_whole_entry(void **state)
{
  const cache_fixture *f = *state;
  pid_t writers[3];
  for (size_t i = 0; i < 3; i++) {
    writers[i] = fork();
    if (writers[i] == 0) {
      for (int round = 0; round < 200; round++)
        hr_cache_write(f->folder, key, image_kept, sizeof image_kept);
      _exit(0);
    }
    assert_true(writers[i] > 0);
  }
  for (int round = 0; round < 500; round++)
    assert_true(kept(f));
  for (size_t i = 0; i < 3; i++)
    waitpid(writers[i], NULL, 0);
  assert_true(kept(f));
}

static void a_program_is_taken_from_the_cache_and_rebuilt_when_that_is_damaged(void **state)
{
  cache_fixture *f = *state;
  hr_nvrtc nvrtc;
  hr_error error;
  if (hr_nvrtc_open(&nvrtc, &error) != HR_OK) {
    print_message("%s\n", error.message);
    skip();
  }
  assert_int_equal(unlink(f->entry), 0);
  hr_program program = {.source = "fill", .dtype = HR_BF16, .architecture = "sm_90a"};
  char *first = NULL, *second = NULL;
  size_t first_bytes = 0, second_bytes = 0;
  struct stat before, after;
  assert_ok(hr_program_build(&nvrtc, &program, f->folder, &first, &first_bytes, &error), error);
  find_entry(f);
  assert_int_equal(stat(f->entry, &before), 0);
  assert_ok(hr_program_build(&nvrtc, &program, f->folder, &second, &second_bytes, &error), error);
  assert_int_equal(stat(f->entry, &after), 0);
  assert_int_equal(after.st_ino, before.st_ino); /* read, not written again */
  assert_int_equal(second_bytes, first_bytes);
  assert_memory_equal(second, first, first_bytes);
  free(second);
  assert_int_equal(truncate(f->entry, before.st_size / 2), 0);
  assert_ok(hr_program_build(&nvrtc, &program, f->folder, &second, &second_bytes, &error), error);
  assert_int_equal(stat(f->entry, &after), 0);
  assert_int_equal(after.st_size, before.st_size);
  free(first);
  free(second);
  hr_nvrtc_close(&nvrtc);
}

static void the_folder_follows_the_environment(void **state)
{
  (void)state;
  char folder[HR_CACHE_PATH_SIZE];
  setenv("HOME", "/somebody", 1);
  setenv("XDG_CACHE_HOME", "/var/caches", 1);
  hr_cache_folder(folder);
  assert_string_equal(folder, "/var/caches/headroom");
  setenv("XDG_CACHE_HOME", "relative", 1); /* the specification says to ignore relative paths */
  hr_cache_folder(folder);
  assert_string_equal(folder, "/somebody/.cache/headroom");
  unsetenv("XDG_CACHE_HOME");
  unsetenv("HOME");
  hr_cache_folder(folder);
  assert_string_equal(folder, "");
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_program_compiles_for_every_architecture_and_format),
      cmocka_unit_test(copies_of_experts_multiply_with_every_tiling),
      cmocka_unit_test(routers_of_few_tokens_compile),
      cmocka_unit_test(rows_compile_with_every_tiling),
      cmocka_unit_test(gradients_compile_with_every_tiling),
      cmocka_unit_test(tilings_of_gradients_cover_the_row),
      cmocka_unit_test(rowwise_tilings_fit_the_multiprocessor),
      cmocka_unit_test(a_residual_with_its_norm_compiles_for_rows_of_any_length),
      cmocka_unit_test(a_list_of_definitions_that_is_too_long_is_refused),
      cmocka_unit_test(architectures_from_hopper_on_use_their_specific_instructions),
      cmocka_unit_test_setup_teardown(an_image_is_found_again_by_its_key_and_by_no_other, make_cache, remove_cache),
      cmocka_unit_test_setup_teardown(the_cache_is_readable_by_its_user_only, make_cache, remove_cache),
      cmocka_unit_test_setup_teardown(a_damaged_or_truncated_entry_is_not_used, make_cache, remove_cache),
      cmocka_unit_test_setup_teardown(an_entry_that_others_could_have_written_is_not_used, make_cache, remove_cache),
      cmocka_unit_test_setup_teardown(writers_at_the_same_time_leave_a_whole_entry, make_cache, remove_cache),
      cmocka_unit_test_setup_teardown(a_program_is_taken_from_the_cache_and_rebuilt_when_that_is_damaged, make_cache,
                                      remove_cache),
      cmocka_unit_test(the_folder_follows_the_environment),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
