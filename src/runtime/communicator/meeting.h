/* SPDX-License-Identifier: Apache-2.0 */
/* Where the hosts of ranks meet: each gives some bytes and gets those of all. Ranks are threads of one process
 * (threads.c) or processes (sockets.c). Thread safety: as communicators. */
#ifndef HR_RUNTIME_COMMUNICATOR_MEETING_H
#define HR_RUNTIME_COMMUNICATOR_MEETING_H

#include <headroom/experimental/communicator.h>

#include <stdbool.h>

typedef struct hr_meeting hr_meeting;

/** Bytes of this rank, and room for those of all in the order of the ranks. */
typedef struct hr_exchange {
  const void *mine;
  void *all; /* [size, bytes] */
  size_t bytes;
  const char *what;  /* for, in messages: "all_reduce 17" */
  double patience_s; /* 0: without end */
} hr_exchange;

typedef struct hr_meeting_functions {
  /** HR_ERROR_UNAVAILABLE names a rank that does not come in time or has given up. */
  hr_status (*exchange)(hr_meeting *meeting, const hr_exchange *exchange, hr_error *error);
  /** HR_ERROR_UNAVAILABLE with the reason once a rank has given up or is gone. Does not wait. */
  hr_status (*check)(hr_meeting *meeting, hr_error *error);
  void (*give_up)(hr_meeting *meeting, const char *reason);
  void (*leave)(hr_meeting *meeting); /* frees it */
} hr_meeting_functions;

/** The first member of both kinds. */
struct hr_meeting {
  const hr_meeting_functions *functions;
  int64_t rank, size;
  bool one_process;
};

/** A meeting of threads: meetings[i] is that of rank i. */
hr_status hr_meet_as_threads(int64_t size, hr_meeting **meetings, hr_error *error);

/** A meeting of processes; `options` of hr_communicator_join(), which have been checked. */
hr_status hr_meet_as_processes(const hr_communicator_options *options, hr_meeting **meeting, hr_error *error);

#endif
