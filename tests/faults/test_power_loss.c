/* SPDX-License-Identifier: Apache-2.0 */
/* The power goes at any moment of appending, importing, merging, deleting and a sweep: afterwards the store opens, is
 * whole, and has what was acknowledged before, or that and all of the change in progress.
 *
 * HEADROOM_TEST=whole: at every change of a file and with 20 choices of what else is lost, otherwise a sample. */
#include "disk.h"
#include "stored.h"

typedef struct plug {
  vfs_log log;
  char path[256], after[256], other[256];
  uint64_t acknowledged;
} plug;

static void acknowledge(plug *p, uint64_t rows)
{
  p->acknowledged = rows;
  vfs_mark(rows);
}

/* ---- the work during which the power goes ---- */

static void append_some(plug *p, hr_store *store)
{
  for (int64_t m = 1; m <= 6; m++) {
    append_row(store, m);
    acknowledge(p, p->acknowledged | ROW(m));
  }
}

static void import_some(plug *p, hr_store *store, char *text, size_t size)
{
  hr_error error = {.status = HR_OK};
  hr_store_change change;
  FILE *in = fmemopen(text, size, "rb");
  assert_non_null(in);
  assert_ok(hr_store_import(store, in, "rows", &change, &error), error);
  assert_int_equal(change.added, 15);
  fclose(in);
  acknowledge(p, p->acknowledged | ROWS(10, 24));
}

static void merge_some(plug *p, hr_store *store)
{
  hr_error error = {.status = HR_OK};
  assert_ok(hr_store_merge(store, p->other, NULL, &error), error);
  acknowledge(p, p->acknowledged | ROWS(30, 31));
}

typedef struct sweeping {
  plug *p;
  const hr_sweep *sweep;
  size_t *order;
  int64_t measured;
} sweeping;

static int note_point(void *context, const hr_sweep_progress *now)
{
  sweeping *s = context;
  for (; s->measured < now->measured; s->measured++)
    acknowledge(s->p, s->p->acknowledged | ROW(SWEEP_FIRST + (int)s->order[s->measured]));
  return 0;
}

static void sweep_some(plug *p, hr_store *store)
{
  hr_error error = {.status = HR_OK};
  hr_device *device = NULL;
  hr_sweep_options options = small_options();
  hr_sweep_progress outcome;
  size_t count = 0;
  sweeping s = {.p = p, .sweep = small_sweep()};
  options.progress = note_point, options.context = &s;
  assert_ok(hr_sweep_order(s.sweep, &options.choice, &s.order, &count, &error), error);
  assert_ok(hr_device_open("reference", 0, &device, &error), error);
  assert_ok(hr_sweep_run(s.sweep, device, store, &options, &outcome, &error), error);
  assert_int_equal(outcome.measured, SWEEP_POINTS);
  note_point(&s, &outcome);
  hr_device_close(device);
  hr_sweep_free((hr_sweep *)(uintptr_t)s.sweep);
  free(s.order);
}

static void delete_some(plug *p, hr_store *store)
{
  hr_error error = {.status = HR_OK};
  hr_result_filter filter = hr_result_filter_default();
  filter.sweep = "small";
  assert_ok(hr_store_delete(store, &filter, NULL, &error), error);
  acknowledge(p, p->acknowledged & ~ROWS(SWEEP_FIRST, SWEEP_FIRST + SWEEP_POINTS - 1));
}

static void work(plug *p, const char *folder)
{
  size_t size = 0;
  char *text = exported_rows(folder, 10, 24, &size);
  hr_store *other = open_store(p->other, HR_STORE_WRITE);
  append_row(other, 30);
  append_row(other, 31);
  hr_store_close(other);

  vfs_record(&p->log, p->path);
  acknowledge(p, 0);
  hr_store *store = open_store(p->path, HR_STORE_WRITE);
  append_some(p, store);
  import_some(p, store, text, size);
  merge_some(p, store);
  sweep_some(p, store);
  delete_some(p, store);
  hr_store_close(store);
  vfs_record(NULL, "");
  free(text);
}

/* ---- what is left ---- */

/* The last acknowledged state before the power went, and the one that was in progress. */
static void states_at(const vfs_log *log, size_t count, uint64_t *before, uint64_t *next)
{
  size_t i = count;
  *before = 0;
  while (i > 0 && log->changes[i - 1].kind != VFS_MARK)
    i--;
  if (i > 0)
    *before = log->changes[i - 1].mark;
  *next = *before;
  for (i = count; i < log->count; i++) {
    if (log->changes[i].kind == VFS_MARK) {
      *next = log->changes[i].mark;
      return;
    }
  }
}

static void assert_after_loss(plug *p, size_t count, disk_loss loss, uint64_t seed)
{
  char what[160];
  uint64_t before, next;
  snprintf(what, sizeof what, "power lost after change %zu of %zu, loss %d, seed %d", count, p->log.count, (int)loss,
           (int)seed);
  assert_true(disk_after_power_loss(&p->log, count, loss, seed, p->after));
  states_at(&p->log, count, &before, &next);
  uint64_t found = rows_of(p->after);
  if (found != before && found != next)
    fail_msg("%s: rows %llx rather than %llx or %llx", what, (unsigned long long)found, (unsigned long long)before,
             (unsigned long long)next);
  if (access(p->after, F_OK) == 0)
    assert_integrity(p->after, what);
  hr_store *store = open_store(p->after, HR_STORE_WRITE);
  append_row(store, 63);
  hr_store_close(store);
  assert_true(rows_of(p->after) == (found | ROW(63)));
}

static void what_was_acknowledged_is_there_after_a_loss_of_power(void **state)
{
  plug p = {.log = {.changes = NULL}};
  int losses = 0, choices = test_asks_for("whole") ? 20 : 1;
  size_t step = test_asks_for("whole") ? 1 : 7, syncs = 0;
  path_in(state, "a.db", p.path);
  path_in(state, "after.db", p.after);
  path_in(state, "other.db", p.other);
  vfs_install();
  work(&p, *state);
  vfs_remove();
  disk_find_durable(&p.log);
  for (size_t count = 0; count <= p.log.count; count++) {
    bool sync = count > 0 && (p.log.changes[count - 1].kind == VFS_SYNCED || p.log.changes[count - 1].kind == VFS_MARK);
    syncs += sync;
    if (!sync && count % step != 0)
      continue;
    assert_after_loss(&p, count, DISK_LOSES_ALL, 0);
    assert_after_loss(&p, count, DISK_LOSES_NONE, 0);
    for (int i = 0; i < choices; i++)
      assert_after_loss(&p, count, DISK_LOSES_SOME, (uint64_t)i + 1000 * count);
    losses += 2 + choices;
  }
  assert_true(syncs > 40);
  print_message("%d losses of power, %zu changes of files, %zu syncs and acknowledgements\n", losses, p.log.count,
                syncs);
  vfs_log_free(&p.log);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(what_was_acknowledged_is_there_after_a_loss_of_power, make_folder_in_memory,
                                      remove_folder),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
