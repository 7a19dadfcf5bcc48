/* SPDX-License-Identifier: Apache-2.0 */
/* Every call of SQLite to the file system fails, one after the other, once or from then on, while rows are
 * appended, imported, exported, merged, deleted, counted and measured by a sweep. Success means that all took
 * place; a failure has a line that says what; no row that was there or was acknowledged is lost, and what happens
 * at once happens as a whole.
 *
 * HEADROOM_TEST=whole fails every call, otherwise every 17th. */
#include "stored.h"
#include "vfs.h"

#define OLD ROWS(1, 2)

typedef struct files {
  char path[256], full[256], other[256];
  char *text; /* of rows 10 … 12 */
  size_t size;
  hr_device *device;
  hr_sweep *sweep;
  uint64_t acknowledged;
} files;

/* ---- the work ---- */

static hr_status append(files *f, hr_store *store, hr_error *error)
{
  for (int64_t m = 10; m <= 12; m++) {
    hr_status status = try_row(store, m, error);
    if (status != HR_OK)
      return status;
    f->acknowledged |= ROW(m);
  }
  return HR_OK;
}

static hr_status import(files *f, hr_store *store, hr_error *error)
{
  FILE *in = fmemopen(f->text, f->size, "rb");
  assert_non_null(in);
  hr_status status = hr_store_import(store, in, "rows", NULL, error);
  fclose(in);
  return status;
}

static hr_status merge(files *f, hr_store *store, hr_error *error)
{
  return hr_store_merge(store, f->other, NULL, error);
}

static hr_status delete (files *f, hr_store *store, hr_error *error)
{
  (void)f;
  return hr_store_delete(store, NULL, NULL, error);
}

static hr_status export(files *f, hr_store *store, hr_error *error)
{
  (void)f;
  char *text = NULL;
  size_t size = 0, lines = 0;
  FILE *out = open_memstream(&text, &size);
  hr_status status = hr_store_export(store, NULL, HR_STORE_JSON_LINES, out, error);
  fclose(out);
  for (size_t i = 0; i < size; i++)
    lines += text[i] == '\n';
  free(text);
  assert_true(status != HR_OK || lines == 2);
  return status;
}

static hr_status count(files *f, hr_store *store, hr_error *error)
{
  (void)f;
  int64_t found = -1;
  hr_status status = hr_store_count(store, NULL, &found, error);
  assert_true(status != HR_OK || found == 2);
  return status;
}

static hr_status sweep(files *f, hr_store *store, hr_error *error)
{
  hr_sweep_options options = small_options();
  hr_sweep_progress outcome = {.measured = 0};
  size_t *order = NULL, points = 0;
  hr_status status = hr_sweep_run(f->sweep, f->device, store, &options, &outcome, error);
  assert_int_equal(hr_sweep_order(f->sweep, &options.choice, &order, &points, NULL), HR_OK);
  for (int64_t i = 0; i < outcome.measured; i++)
    f->acknowledged |= ROW(SWEEP_FIRST + (int)order[i]);
  free(order);
  return status;
}

static const struct work {
  const char *name;
  hr_status (*run)(files *f, hr_store *store, hr_error *error);
  hr_store_mode mode;
  bool starts_new, at_once;
  uint64_t added, removed;
} works[] = {
    {"append", append, HR_STORE_WRITE, true, false, ROWS(10, 12), 0},
    {"append to rows", append, HR_STORE_WRITE, false, false, ROWS(10, 12), 0},
    {"import", import, HR_STORE_WRITE, true, true, ROWS(10, 12), 0},
    {"import to rows", import, HR_STORE_WRITE, false, true, ROWS(10, 12), 0},
    {"merge", merge, HR_STORE_WRITE, true, true, ROWS(30, 31), 0},
    {"merge to rows", merge, HR_STORE_WRITE, false, true, ROWS(30, 31), 0},
    {"delete", delete, HR_STORE_WRITE, false, true, 0, OLD},
    {"export", export, HR_STORE_READ, false, true, 0, 0},
    {"count", count, HR_STORE_READ, false, true, 0, 0},
    {"sweep", sweep, HR_STORE_WRITE, true, false, ROWS(SWEEP_FIRST, SWEEP_FIRST + SWEEP_POINTS - 1), 0},
    {"sweep to rows", sweep, HR_STORE_WRITE, false, false, ROWS(SWEEP_FIRST, SWEEP_FIRST + SWEEP_POINTS - 1), 0},
};

static void copy_file(const char *from, const char *to)
{
  char bytes[1 << 16];
  FILE *in = fopen(from, "rb"), *out = fopen(to, "wb");
  assert_true(in && out);
  size_t length = fread(bytes, 1, sizeof bytes, in);
  assert_int_equal(fwrite(bytes, 1, length, out), length);
  fclose(in);
  assert_int_equal(fclose(out), 0);
}

static hr_status run(const struct work *w, files *f, hr_error *error)
{
  hr_store *store = NULL;
  hr_store_options options = hr_store_options_default();
  options.patience_ms = 0;
  f->acknowledged = 0;
  hr_status status = hr_store_open_with(f->path, w->mode, &options, &store, error);
  if (status != HR_OK)
    return status;
  status = w->run(f, store, error);
  if (status == HR_OK)
    hr_store_close(store);
  else
    hr_store_abandon(store);
  return status;
}

/* ---- the faults ---- */

static void assert_clear(hr_status status, const hr_error *error, const char *what)
{
  bool known = status == HR_ERROR_OUTPUT || status == HR_ERROR_UNREADABLE || status == HR_ERROR_OUT_OF_MEMORY;
  if (!known || strlen(error->message) < 10 || strchr(error->message, '\n') || !strstr(error->message, ".db"))
    fail_msg("%s: %s: \"%s\"", what, hr_status_name(status), error->message);
}

static void assert_rows(const struct work *w, const files *f, hr_status status, const char *what)
{
  uint64_t old = w->starts_new ? 0 : OLD, all = (old | w->added) & ~w->removed, found = rows_of(f->path);
  bool right = status == HR_OK ? found == all
               : w->at_once    ? found == old || found == all
                               : (found & ~all) == 0 && (old & ~found) == 0;
  if (!right || (f->acknowledged & ~found))
    fail_msg("%s: %s, but rows %llx", what, hr_status_name(status), (unsigned long long)found);
  if (access(f->path, F_OK) != 0)
    return;
  assert_integrity(f->path, what);
  hr_store *store = open_store(f->path, HR_STORE_WRITE);
  append_row(store, 62);
  hr_store_close(store);
}

/* Returns false if the work has no such call. */
static bool try_fault(const struct work *w, files *f, vfs_call call, int at, bool again)
{
  char what[120], journal[300];
  hr_error error = {.message = ""};
  snprintf(what, sizeof what, "%s: %s %d%s", w->name, vfs_call_name(call), at, again ? " and all later ones" : "");
  snprintf(journal, sizeof journal, "%s-journal", f->path);
  unlink(f->path);
  unlink(journal);
  if (!w->starts_new)
    copy_file(f->full, f->path);
  vfs_fail(call, at, again);
  hr_status status = run(w, f, &error);
  bool reached = vfs_mend();
  if (status != HR_OK)
    assert_clear(status, &error, what);
  assert_true(reached || status == HR_OK);
  assert_rows(w, f, status, what);
  return reached;
}

static void no_row_is_lost_where_a_call_fails(void **state)
{
  files f = {.text = NULL};
  hr_error error = {.status = HR_OK};
  int failures = 0, step = test_asks_for("whole") ? 1 : 17, first = 1;
  path_in(state, "a.db", f.path);
  path_in(state, "full.db", f.full);
  path_in(state, "other.db", f.other);
  f.text = exported_rows(*state, 10, 12, &f.size);
  f.sweep = small_sweep();
  assert_ok(hr_device_open("reference", 0, &f.device, &error), error);
  hr_store *store = open_store(f.full, HR_STORE_WRITE), *other = open_store(f.other, HR_STORE_WRITE);
  for (int64_t m = 1; m <= 2; m++) {
    append_row(store, m);
    append_row(other, 29 + m);
  }
  hr_store_close(store);
  hr_store_close(other);
  vfs_install();
  for (size_t i = 0; i < sizeof works / sizeof *works; i++) {
    for (vfs_call call = 0; call < VFS_CALL_COUNT; call++) {
      first = first % step + 1;
      for (int at = first; try_fault(&works[i], &f, call, at, false); at += step)
        failures += 1 + try_fault(&works[i], &f, call, at, true);
    }
  }
  vfs_remove();
  print_message("%d failures\n", failures);
  assert_true(failures > 50);
  hr_device_close(f.device);
  hr_sweep_free(f.sweep);
  free(f.text);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(no_row_is_lost_where_a_call_fails, make_folder_in_memory, remove_folder),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
