/* SPDX-License-Identifier: Apache-2.0 */
/* Checks and times the kernels of the table.
 *
 *   harness [--check] [GROUP [FACT]]   facts of all kernels, of a group, one fact; harness --list names them
 *   harness --check --shape m=64,n=100,k=7    each kernel of the operation at one shape, in sampled rows
 *   harness --bench                    times of each kernel at the shapes of its operation, or at --shape
 *   --kernel NAME|FAMILY   of one kernel or family; needed with --shape
 *   --probe                of peaks that are measured first (seconds), not estimated
 *   --against NAME         beside another kernel of the table, samples interleaved
 *   --dtype "bf16 fp32"    formats
 *   --seed N               of random operands and calls
 *
 * tests/test.h lists environment variables that choose shares of the facts. */
#include "harness.h"

#include <stdio.h>

#define GROUPS(GROUP)       \
  GROUP(rowwise)            \
  GROUP(gemm)               \
  GROUP(gemm_few_rows)      \
  GROUP(gemm_gpu)           \
  GROUP(decode)             \
  GROUP(decode_topk)        \
  GROUP(decode_latent)      \
  GROUP(decode_batches)     \
  GROUP(decode_scores)      \
  GROUP(decode_tiles)       \
  GROUP(attention)          \
  GROUP(attention_edges)    \
  GROUP(attention_lengths)  \
  GROUP(attention_large)    \
  GROUP(attention_repeats)  \
  GROUP(attention_scores)   \
  GROUP(attention_memory)   \
  GROUP(attention_tiles)    \
  GROUP(attention_backward) \
  GROUP(small)              \
  GROUP(guard_pages)        \
  GROUP(shared_plans)

#define DECLARE(name) extern const fact_group name##_facts;
#define ADDRESS(name) &name##_facts,
GROUPS(DECLARE)
static const fact_group *const groups[] = {GROUPS(ADDRESS)};

static int list(void)
{
  size_t count;
  const hr_kernel_info *kernels = hr_kernels(&count);
  for (size_t i = 0; i < count; i++)
    printf("%-10s %-31s %s\n", kernels[i].operation, kernels[i].name, kernels[i].dtypes);
  for (int64_t g = 0; g < LENGTH(groups); g++)
    for (int64_t i = 0; i < groups[g]->count; i++)
      printf("%-18s %s\n", groups[g]->name, groups[g]->facts[i].name);
  return 0;
}

static int fail_with(const char *what, const char *word)
{
  fprintf(stderr, "harness: %s: %s; harness --list shows which there are\n", word, what);
  return 2;
}

/* Returns how many facts failed, at most 100. */
static int check(const char *group, const char *name)
{
  int failed = 0, found = 0;
  for (int64_t g = 0; g < LENGTH(groups); g++)
    for (int64_t i = 0; i < groups[g]->count && (!group || strcmp(groups[g]->name, group) == 0); i++) {
      if (name ? strcmp(groups[g]->facts[i].name, name) != 0 : i > 0)
        continue;
      failed += run_facts(groups[g], name);
      found++;
    }
  return found == 0 ? fail_with("no group, or none with such a fact", group) : failed < 100 ? failed : 100;
}

/* An unknown name must not count as a check that passed. */
static bool is_kernel(const char *name)
{
  size_t count;
  const hr_kernel_info *kernels = hr_kernels(&count);
  for (size_t i = 0; i < count; i++)
    if (hr_kernel_is(&kernels[i], name))
      return true;
  return false;
}

typedef struct command {
  bench_options options;
  bool bench, list;
  const char *words[2]; /* group, fact */
} command;

/* Reads the option at *arguments, and moves on to its last word. */
static bool read_option(char ***arguments, command *c)
{
  const char **const values[] = {&c->options.kernel, &c->options.shape, &c->options.against, &c->options.dtypes};
  static const char *const flags[] = {"--bench", "--list", "--check", "--probe"};
  static const char *const names[] = {"--kernel", "--shape", "--against", "--dtype"};
  const char *option = **arguments;
  c->bench = c->bench || strcmp(option, "--bench") == 0;
  c->list = c->list || strcmp(option, "--list") == 0;
  c->options.probe = c->options.probe || strcmp(option, "--probe") == 0;
  for (int64_t i = 0; i < LENGTH(flags); i++)
    if (strcmp(option, flags[i]) == 0)
      return true;
  const char *value = (*arguments)[1];
  if (!value)
    return false;
  ++*arguments;
  for (int64_t i = 0; i < LENGTH(names); i++)
    if (strcmp(option, names[i]) == 0)
      return *values[i] = value, true;
  c->options.seed = strtoull(value, NULL, 10);
  return strcmp(option, "--seed") == 0 && setenv("HEADROOM_TEST_SEED", value, 1) == 0;
}

int main(int count, char **arguments)
{
  command c = {.options.seed = 1};
  (void)count;
  for (arguments++; *arguments; arguments++) {
    const char *word = *arguments;
    if (word[0] != '-' && c.words[1])
      return fail_with("one group and one fact are enough", word);
    if (word[0] != '-')
      c.words[c.words[0] != NULL] = word;
    else if (!read_option(&arguments, &c))
      return fail_with("no option, or one without its value", word);
  }
  const char *named[] = {c.options.kernel, c.options.against, getenv("HEADROOM_TEST_KERNEL")};
  for (int64_t i = 0; i < LENGTH(named); i++)
    if (named[i] && *named[i] && !is_kernel(named[i]))
      return fail_with("no kernel", named[i]);
  if (c.options.kernel)
    setenv("HEADROOM_TEST_KERNEL", c.options.kernel, 1);
  if (c.options.shape && !c.options.kernel)
    return fail_with("a shape is that of a kernel: --kernel NAME", c.options.shape);
  if (c.list)
    return list();
  return c.bench ? run_bench(&c.options) : c.options.shape ? check_shape(&c.options) : check(c.words[0], c.words[1]);
}
