/* SPDX-License-Identifier: Apache-2.0 */
/* A program with the defects that torture.py looks for: it ends rightly where the first allocation fails, in six wrong
 * ways where the next ones do, and so on. Only the address sanitizer sees the leak. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { ALLOCATIONS = 35 };

static void *volatile lost;

static int out_of_memory(void)
{
  fprintf(stderr, "out of memory\n");
  return 5;
}

static int behave(int number)
{
  switch (number % 7) {
  case 0: return out_of_memory();
  case 1: return 0;                   /* another result */
  case 2: printf("done\n"); return 3; /* a wrong exit code */
  case 3: return 5;                   /* without a word */
  case 4: raise(SIGSEGV); return 5;   /* a crash */
  case 5:
    printf("done\n");
    fputs("?", stderr);
    return 0; /* other messages */
  default:    /* leaks: the last pointer may be somewhere on the stack still */
    for (int i = 0; i < 10; i++)
      lost = malloc(100);
    lost = NULL;
    return out_of_memory();
  }
}

int main(void)
{
  for (int i = 0; i < ALLOCATIONS; i++) {
    void *volatile block = malloc(16);
    if (!block)
      return behave(i);
    free(block);
  }
  printf("done\n");
  return 0;
}
