/* What every unit test includes: cmocka with the headers that it wants before itself. */
#ifndef HEADROOM_TEST_H
#define HEADROOM_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <headroom/dtype.h>
#include <headroom/status.h>

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/** Fails with the error's message unless `call` returns HR_OK. `error` is an hr_error variable. */
#define assert_ok(call, error)                    \
  do {                                            \
    if ((call) != HR_OK)                          \
      fail_msg("%s: %s", #call, (error).message); \
  } while (0)

/** Whether HEADROOM_TEST, words separated by spaces, asks for `what`: "thorough" is every size in every format, of
 *  which otherwise some take turns; "gpu" leaves out kernels of processors; "few" is what a sanitizer has time for;
 *  "required" fails where a kernel that was to be tested does not run on this machine. */
static inline bool test_asks_for(const char *what)
{
  const char *asked = getenv("HEADROOM_TEST");
  return asked && strstr(asked, what) != NULL;
}

/** With formats among the words of HEADROOM_TEST, whether `dtype` is none of them: so that processes can share the
 *  work. */
static inline bool test_leaves_out(hr_dtype dtype)
{
  bool named = false;
  for (int i = 0; i < HR_DTYPE_COUNT; i++)
    named = named || test_asks_for(hr_dtype_name((hr_dtype)i));
  return named && !test_asks_for(hr_dtype_name(dtype));
}

/** Whether case `number` of a list is to be tried: all, or with HEADROOM_TEST_SHARE=n every nth. */
static inline bool test_takes(int64_t number)
{
  const char *share = getenv("HEADROOM_TEST_SHARE");
  long n = share ? strtol(share, NULL, 10) : 1;
  return n <= 1 || number % n == 0;
}

#endif
