/* SPDX-License-Identifier: Apache-2.0 */
/* A locale with a decimal comma, made by localedef of the C library, which needs none of the system's locales. */
#ifndef HEADROOM_TEST_COMMA_LOCALE_H
#define HEADROOM_TEST_COMMA_LOCALE_H

#include "test.h"

#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>

/** Writes the locale's definition to the folder and compiles it. */
static inline void make_comma_locale(const char *folder)
{
  char path[300], command[1024];
  snprintf(path, sizeof path, "%s/characters", folder);
  FILE *file = fopen(path, "w");
  assert_non_null(file);
  fputs("<code_set_name> ASCII\n<comment_char> %\n<escape_char> /\nCHARMAP\n", file);
  for (int i = 0; i < 128; i++)
    fprintf(file, "<U%04X> /x%02x c%d\n", (unsigned)i, (unsigned)i, i);
  fputs("END CHARMAP\n", file);
  assert_int_equal(fclose(file), 0);
  snprintf(path, sizeof path, "%s/definition", folder);
  file = fopen(path, "w");
  assert_non_null(file);
  fputs("comment_char %\nescape_char /\nLC_NUMERIC\ndecimal_point \"<U002C>\"\nthousands_sep \"<U002E>\"\n"
        "grouping 3;3\nEND LC_NUMERIC\n",
        file);
  assert_int_equal(fclose(file), 0);
  snprintf(command, sizeof command, "localedef -c -f %s/characters -i %s/definition %s/comma 2> %s/messages", folder,
           folder, folder, folder);
  int code = system(command); /* 1: with warnings, that it has no other categories */
  assert_true(WIFEXITED(code) && WEXITSTATUS(code) <= 1);
  assert_int_equal(setenv("LOCPATH", folder, 1), 0);
}

/** Sets the process's locale; asserts that numbers have a comma then. */
static inline void set_comma_locale(void)
{
  char text[16];
  assert_non_null(setlocale(LC_NUMERIC, "comma"));
  snprintf(text, sizeof text, "%.1f", 1.5);
  assert_string_equal(text, "1,5");
}

#endif
