/* SPDX-License-Identifier: Apache-2.0 */
/* Measures attention and decode calls of a list, with cold caches, for the forms of predictions.
 *
 *   attention_points DEVICE SECONDS FILE.csv WORKERS > ROWS.csv
 *   attention_points draw SEED COUNT DEVICE-FILE > FILE.csv  the points of `headroom validate --kinds attention,decode`
 *
 * A line of the list: kind (attention or decode), dtype, batch, q_len, kv_len, q_heads, k_heads, v_heads,
 * qk_dim, v_dim, causal, window, page (tokens; 0: contiguous), latent. The output adds the times, the kernel's
 * configuration and the clock. No point is begun after SECONDS. WORKERS processes compile kernels ahead.
 * Results are not compared with the reference: the tests do that. */
#include "hardware/hardware.h"

#include <headroom/experimental/headroom.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define LINE 256
#define POINTS_MAX 4096
#define SAMPLING_NS 0.2e9
#define WAIT_MS 4000 /* for a worker */

typedef struct point {
  char line[LINE];
  bool is_decode, latent;
  hr_attention attention;
  hr_decode decode;
} point;

static point points[POINTS_MAX];
static volatile unsigned char *compiled; /* of each point, shared with the workers */

static double now_s(void)
{
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static hr_status set_decode(point *p, int64_t page, hr_error *error)
{
  hr_decode *d = &p->decode;
  const hr_attention *a = &p->attention;
  *d = hr_decode_default();
  d->batch = a->batch, d->q_len = a->q_len, d->kv_len = a->kv_len;
  d->q_heads = a->q_heads, d->k_heads = a->k_heads, d->v_heads = a->v_heads;
  d->qk_dim = a->qk_dim, d->v_dim = a->v_dim, d->dtype = a->dtype, d->window = a->window, d->latent = p->latent;
  return hr_decode_set_pages(d, page, error);
}

static bool read_point(const char *line, point *p)
{
  char kind[16], dtype[16];
  int causal, latent;
  int64_t page;
  hr_attention *a = &p->attention;
  hr_error error;
  *a = hr_attention_default();
  snprintf(p->line, LINE, "%s", line);
  p->line[strcspn(p->line, "\r\n")] = '\0';
  if (sscanf(line,
             "%15[^,],%15[^,],%" SCNd64 ",%" SCNd64 ",%" SCNd64 ",%" SCNd64 ",%" SCNd64 ",%" SCNd64 ",%" SCNd64
             ",%" SCNd64 ",%d,%" SCNd64 ",%" SCNd64 ",%d",
             kind, dtype, &a->batch, &a->q_len, &a->kv_len, &a->q_heads, &a->k_heads, &a->v_heads, &a->qk_dim,
             &a->v_dim, &causal, &a->window, &page, &latent) != 14 ||
      hr_dtype_parse(dtype, &a->dtype) != HR_OK)
    return false;
  a->mask = causal ? HR_MASK_CAUSAL : HR_MASK_NONE;
  p->is_decode = strcmp(kind, "decode") == 0;
  p->latent = latent != 0;
  return !p->is_decode || set_decode(p, page, &error) == HR_OK;
}

static size_t read_points(const char *path)
{
  char line[LINE];
  size_t count = 0;
  FILE *file = fopen(path, "r");
  while (file && count < POINTS_MAX && fgets(line, LINE, file))
    count += read_point(line, &points[count]);
  if (file)
    fclose(file);
  return count;
}

static const char *kernel_of(const point *p)
{
  return p->is_decode ? p->latent ? "decode_latent" : "decode_split" : "attention_flash";
}

/* Plans every point, which compiles its kernel: each worker those that no other has begun. */
static void compile_points(const char *device_name, size_t count, volatile int *next)
{
  hr_device *device;
  hr_error error;
  if (hr_device_open(device_name, 1, &device, &error) != HR_OK)
    _exit(1);
  for (int i = __sync_fetch_and_add(next, 1); i < (int)count; i = __sync_fetch_and_add(next, 1)) {
    hr_plan *plan = NULL;
    hr_status status = points[i].is_decode
                           ? hr_plan_decode(device, &points[i].decode, kernel_of(&points[i]), &plan, &error)
                           : hr_plan_attention(device, &points[i].attention, kernel_of(&points[i]), &plan, &error);
    if (status == HR_OK)
      hr_plan_free(plan);
    compiled[i] = 1;
  }
  _exit(0);
}

static void measure_point(hr_device *device, const point *p)
{
  hr_measure_options options = hr_measure_options_default();
  hr_measurement m;
  hr_error error = {.status = HR_OK};
  options.time_limit_ns = SAMPLING_NS;
  options.precision = 0.01;
  options.check = false;
  options.kernel = kernel_of(p);
  hr_status status = p->is_decode ? hr_measure_decode(device, &p->decode, &options, &m, &error)
                                  : hr_measure_attention(device, &p->attention, &options, &m, &error);
  if (status != HR_OK)
    printf("%s,,,,,,,,\"%s\"\n", p->line, error.message);
  else
    printf("%s,%.1f,%.1f,%.1f,%" PRId64 ",%.0f,%.0f,\"%s\",\"%s\",%s %s\n", p->line, m.median_ns, m.median_low_ns,
           m.median_high_ns, m.samples, m.conditions.clock_hz * 1e-6, m.conditions.power_w, m.kernel, m.configuration,
           hr_status_name(m.status), m.reason);
  fflush(stdout);
}

static int draw(char **texts)
{
  hr_hardware hardware;
  hr_error error;
  hr_point *drawn;
  size_t count;
  hr_points_draw_options options = hr_points_draw_options_default();
  options.seed = (uint64_t)strtoull(texts[2], NULL, 10);
  options.count = strtoll(texts[3], NULL, 10);
  options.kinds = 1u << HR_INTERVAL_ATTENTION | 1u << HR_INTERVAL_DECODE;
  if (hr_resolve_hardware(texts[4], &hardware, &error) != HR_OK ||
      hr_points_draw(&hardware, &options, &drawn, &count, &error) != HR_OK)
    return fprintf(stderr, "attention_points: %s\n", error.message), 1;
  for (size_t i = 0; i < count; i++) {
    const hr_attention *a = &drawn[i].attention;
    bool decode = drawn[i].kind == HR_INTERVAL_DECODE;
    printf("%s,%s,%" PRId64 ",%" PRId64 ",%" PRId64 ",%" PRId64 ",%" PRId64 ",%" PRId64 ",%" PRId64 ",%" PRId64
           ",%d,%" PRId64 ",%d,0\n",
           hr_interval_kind_name(drawn[i].kind), hr_dtype_name(a->dtype), a->batch, a->q_len, a->kv_len, a->q_heads,
           a->k_heads, a->v_heads, a->qk_dim, a->v_dim, a->mask == HR_MASK_CAUSAL, a->window, decode ? 16 : 0);
  }
  free(drawn);
  return 0;
}

int main(int count, char **texts)
{
  hr_device *device;
  hr_error error;
  if (count == 5 && strcmp(texts[1], "draw") == 0)
    return draw(texts);
  if (count != 5)
    return fprintf(stderr, "attention_points DEVICE SECONDS FILE.csv WORKERS\n"), 2;
  double begin = now_s(), limit = strtod(texts[2], NULL);
  size_t used = read_points(texts[3]);
  int workers = atoi(texts[4]);
  void *shared = mmap(NULL, POINTS_MAX + sizeof(int), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED || used == 0)
    return fprintf(stderr, "attention_points: no points\n"), 1;
  volatile int *next = shared;
  compiled = (volatile unsigned char *)shared + sizeof(int);
  fflush(stdout);
  for (int i = 0; i < workers; i++)
    if (fork() == 0)
      compile_points(texts[1], used, next);
  if (hr_device_open(texts[1], 0, &device, &error) != HR_OK)
    return fprintf(stderr, "attention_points: %s\n", error.message), 1;
  printf(
      "kind,dtype,batch,q_len,kv_len,q_heads,k_heads,v_heads,qk_dim,v_dim,causal,window,page,latent,measured_ns,low_ns,"
      "high_ns,samples,clock_mhz,power_w,kernel,configuration,status\n");
  for (size_t i = 0; i < used && now_s() - begin < limit; i++) {
    for (int wait = 0; workers > 0 && !compiled[i] && wait < WAIT_MS; wait++)
      usleep(1000);
    measure_point(device, &points[i]);
  }
  *next = (int)used; /* workers end */
  hr_device_close(device);
  while (wait(NULL) > 0)
    ;
  fprintf(stderr, "%.1f s\n", now_s() - begin);
  return 0;
}
