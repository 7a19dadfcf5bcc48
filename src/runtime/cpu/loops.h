/* Loops over one instruction with all operands in registers or tiles, a version for each instruction set. */
#ifndef HR_RUNTIME_LOOPS_H
#define HR_RUNTIME_LOOPS_H

#include <headroom/hardware.h>
#include <stddef.h>
#include <stdint.h>

/** Reads `bytes`, a multiple of 64, at an address that is one too; the result depends on each. */
typedef uint64_t (*hr_read_loop)(const void *from, size_t bytes);

/** One version. `needs` is a word of hr_isa_has(), NULL for plain C. */
typedef struct hr_cpu_loop {
  hr_ceiling_kind kind;
  hr_dtype dtype;
  const char *needs, *instruction;
  float (*run)(int64_t steps); /* the result depends on every step; NULL of reads */
  double count;                /* operations in a step: FLOPs, exponentials */
  hr_read_loop read;
} hr_cpu_loop;

/** Within a kind and format the best instruction set is last. Static storage. */
const hr_cpu_loop *hr_cpu_loops(size_t *count);

#endif
