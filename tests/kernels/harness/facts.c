/* SPDX-License-Identifier: Apache-2.0 */
/* Runs facts over the kernels of the table that this machine has. */
#include "harness.h"

#include <math.h>

/* A fact that cmocka runs. */
typedef struct begun {
  const fact_group *group;
  const fact *fact;
  int64_t number; /* in its group */
} begun;

int turn_of(const char *kernel, hr_dtype dtype, int *turns)
{
  size_t count;
  int turn = 0;
  const hr_kernel_info *info = hr_kernels(&count);
  while (strcmp(info->name, kernel) != 0)
    info++;
  *turns = 0;
  for (int other = 0; other < HR_DTYPE_COUNT; other++) {
    turn = other == (int)dtype ? *turns : turn;
    *turns += hr_has_word(info->dtypes, hr_dtype_name((hr_dtype)other));
  }
  return turn;
}

int64_t from_environment(const char *name, int64_t otherwise)
{
  const char *text = getenv(name);
  return text && *text ? strtoll(text, NULL, 10) : otherwise;
}

uint64_t next_random(uint64_t *state)
{
  uint64_t z = *state += 0x9E3779B97F4A7C15u;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return z ^ (z >> 31);
}

bool is_near(double found, double expected, double bound)
{
  return found == expected || (isnan(found) && isnan(expected)) || fabs(found - expected) <= bound;
}

double weight_rounding(hr_dtype dtype)
{
  if (dtype == HR_FP32 || dtype == HR_FP64)
    return 0;
  return dtype == HR_BF16 ? 0x1p-7 : dtype == HR_FP8_E4M3 ? 0x1p-3 : 0x1p-10;
}

static bool has_turn(const hr_kernel_info *info, hr_dtype dtype, int64_t number)
{
  int turns, turn = turn_of(info->name, dtype, &turns);
  turns -= hr_has_word(info->dtypes, hr_dtype_name(HR_FP8_E4M3));
  return test_takes(1) || dtype == HR_FP8_E4M3 || number % turns == turn;
}

static void check_formats(const begun *b, hr_device *device, const hr_kernel_info *info)
{
  int64_t formats = 0;
  for (int i = 0; i < HR_DTYPE_COUNT; i++) {
    hr_dtype dtype = (hr_dtype)i;
    if (!hr_has_word(info->dtypes, hr_dtype_name(dtype)) || test_leaves_out(dtype))
      continue;
    if (b->group->shares == EVERY_NTH && !test_takes(formats++))
      continue;
    if (b->group->shares != ONE_IN_TURN || has_turn(info, dtype, b->number))
      b->fact->check(device, info->name, dtype);
  }
}

static bool is_asked_for(const fact_group *group, const hr_kernel_info *info)
{
  const char *name = getenv("HEADROOM_TEST_KERNEL");
  if (name && *name && !hr_kernel_is(info, name))
    return false;
  if (group->operation && strcmp(info->operation, group->operation) != 0)
    return false;
  return !test_asks_for("gpu") || strcmp(info->device, "cuda") == 0;
}

/* Returns how many were opened. */
static int check_kernels(const begun *b)
{
  size_t count;
  int opened = 0;
  const hr_kernel_info *kernels = hr_kernels(&count);
  for (size_t i = 0; i < count && !b->group->emulated_alone; i++) {
    hr_device *device = is_asked_for(b->group, &kernels[i]) ? open_for_kernel(&kernels[i]) : NULL;
    if (device)
      check_formats(b, device, &kernels[i]);
    opened += device != NULL;
    hr_device_close(device);
  }
  return opened;
}

static void check_fact(void **state)
{
  const begun *b = *state;
  const fact_group *group = b->group;
  if (b->fact->once) {
    b->fact->once();
    return;
  }
  int opened = check_kernels(b);
  if (group->emulated)
    check_with_kernel(group->emulated, HR_BF16, b->fact->check);
  assert_true(opened > 0 || group->emulated_alone || test_asks_for("gpu") || getenv("HEADROOM_TEST_KERNEL"));
}

int run_facts(const fact_group *group, const char *name)
{
  struct CMUnitTest tests[64];
  begun facts[64];
  size_t count = 0;
  assert_true(group->count <= LENGTH(tests));
  for (int64_t i = 0; i < group->count; i++) {
    if (name && strcmp(group->facts[i].name, name) != 0)
      continue;
    facts[count] = (begun){group, &group->facts[i], i};
    tests[count] = (struct CMUnitTest){group->facts[i].name, check_fact, NULL, NULL, &facts[count]};
    count++;
  }
  return _cmocka_run_group_tests(group->name, tests, count, NULL, NULL);
}
