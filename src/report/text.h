/* Words and numbers as people read them. */
#ifndef HR_REPORT_TEXT_H
#define HR_REPORT_TEXT_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/** Long enough for every number below. */
#define HR_NUMBER_SIZE 48

/** Columns that UTF-8 text takes on a terminal: combining marks 0, East Asian wide characters 2. */
int hr_text_columns(const char *text);

/** Copies text for the eyes: bytes that are not UTF-8 and control characters become '?', so that a name can neither
 *  break a table nor steer a terminal. Cut at a whole character if longer than `size`. */
void hr_text_clean(char *to, size_t size, const char *from);

/** Writes text wrapped at spaces to `width` columns (0: never), every line after the first indented by `indent`;
 *  the caller has written the first `column` columns of the first line. Ends with a newline. */
void hr_text_wrap(FILE *out, const char *text, int column, int indent, int width);

/** Bytes of `text` that fit into `columns`, ended at a space where there is one; *next is where the rest begins. */
size_t hr_text_line(const char *text, int columns, const char **next);

void hr_write_count(char *to, size_t size, int64_t count);                 /* 50,257 */
void hr_write_short(char *to, size_t size, double count);                  /* 2.78 B */
void hr_write_time(char *to, size_t size, double time_ns);                 /* 12.4 µs */
void hr_write_bytes(char *to, size_t size, double bytes);                  /* 5.17 GiB */
void hr_write_rate(char *to, size_t size, double per_s, const char *unit); /* 693 TFLOP/s */
void hr_write_share(char *to, size_t size, double share);                  /* 12.3% */
void hr_write_gain(char *to, size_t size, double gain);                    /* +18.2% */

#endif
