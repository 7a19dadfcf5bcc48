/* SPDX-License-Identifier: Apache-2.0 */
/* What a communicator has, for the backends that send by themselves. */
#ifndef HR_RUNTIME_COMMUNICATOR_COMMUNICATOR_H
#define HR_RUNTIME_COMMUNICATOR_COMMUNICATOR_H

#include "runtime/communicator/meeting.h"
#include "runtime/device/device.h"

#define HR_CALLS_COMPARED 256

/** What ranks have to agree about. */
typedef struct hr_call_shape {
  int64_t kind, dtype, count, peer, columns, part;
} hr_call_shape;

struct hr_communicator {
  hr_device *device;
  hr_meeting *meeting;
  double patience_s;
  int64_t small_bytes; /* as hr_communicator_options has it */
  int64_t exchanges;   /* for messages */
  hr_call_shape compared[HR_CALLS_COMPARED];
  size_t compared_count;
  void *room; /* of the host */
  size_t room_bytes;
  void *state; /* the backend's */
};

/** hr_communicators_create() for devices that may be the same, as tests have on a machine with one GPU. */
hr_status hr_communicators_connect(hr_device *const *devices, int64_t count, const hr_communicator_options *options,
                                   hr_communicator **communicators, hr_error *error);

/** Bytes of every rank, in their order, for what is called `what`. */
hr_status hr_communicator_exchange(hr_communicator *c, const char *what, const void *mine, size_t bytes, void *all,
                                   hr_error *error);

/** Elements that the call has in `send`. */
int64_t hr_sent_elements(const hr_collective_call *call, int64_t size);

/** A call between addresses of the host. */
hr_status hr_host_communicate(hr_communicator *c, const hr_collective_call *call, hr_error *error);

#endif
