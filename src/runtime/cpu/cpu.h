/* What the files of the CPU backend share. */
#ifndef HR_RUNTIME_CPU_H
#define HR_RUNTIME_CPU_H

#include "runtime/cpu/ceilings/loops.h"
#include "runtime/cpu/host/affinity.h"
#include "runtime/cpu/host/isa.h"
#include "runtime/cpu/host/thread_pool.h"
#include "runtime/cpu/host/topology.h"
#include "runtime/device/device.h"

#include <pthread.h>

typedef struct hr_onednn hr_onednn;

/** hr_device.state of the CPU. Immutable after open, but for the team. */
typedef struct hr_cpu {
  hr_isa isa;
  hr_topology topology;
  hr_placement placement;
  hr_onednn *onednn; /* NULL where there is none */
  pthread_mutex_t team_lock;
  hr_team *team; /* NULL until a kernel asks for it */
} hr_cpu;

/** The device's own threads, hr_device.threads of them, started by the first call; what prepares a kernel asks. They
 *  live as long as the device. */
hr_status hr_cpu_team(hr_device *device, hr_team **team, hr_error *error);

/** oneDNN's engine and stream; runs use no instructions that `isa` lacks, OpenMP's threads are bound as *placement
 *  says, which must outlive *onednn. Without oneDNN *onednn becomes NULL and HR_OK is returned, unless HEADROOM_ONEDNN
 *  names one: then HR_ERROR_UNAVAILABLE. HR_ERROR_BACKEND if oneDNN refuses. */
hr_status hr_onednn_open(const hr_isa *isa, const hr_placement *placement, hr_onednn **onednn, hr_error *error);
void hr_onednn_close(hr_onednn *onednn); /* NULL is allowed */

/** Whether its threads can be bound. */
bool hr_onednn_binds(const hr_onednn *onednn);

/** Fills `hardware` from what hr_cpu holds (detect.c). */
hr_status hr_cpu_detect(const hr_device *device, hr_hardware *hardware, hr_error *error);

/** Bytes per second, read and written, of a copy by all threads (stream.c). */
hr_status hr_cpu_copy_rate(hr_device *device, double *bytes_per_s, hr_error *error);

/** Bytes per second that `threads` threads read (stream.c). */
hr_status hr_cpu_read_rate(hr_device *device, hr_read_loop read, int threads, double *bytes_per_s, hr_error *error);

#define HR_CPU_ROUNDS_MAX 24

/** Operations per second of a loop on `threads` threads at once, by the best of `rounds` rounds of 1.5 ms, as other
 *  programs may have had a core in the rest (ceilings.c). */
hr_status hr_cpu_time_loop(const hr_cpu *cpu, const hr_cpu_loop *loop, int threads, int rounds, double *per_s,
                           hr_error *error);

/** hr_backend.measure_ceilings (ceilings.c). */
hr_status hr_cpu_measure_ceilings(hr_device *device, const hr_watch *watch, hr_ceiling *ceilings, size_t *count,
                                  hr_error *error);

#endif
