/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of each rank that all others can write: by address between threads of one process, by handle between
 * processes of one host. */
#include "runtime/cuda/collective/collective.h"

#include "base/checked.h"
#include "base/error.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { PEER_ACCESS_ALREADY_ENABLED = 704, IPC_LAZY_PEER_ACCESS = 1 };

/* A handle shows the whole allocation that an address is in, from its first byte on: whole pages are none but the
 * slab's. */
#define PAGE_BYTES ((int64_t)2 << 20)

/* What a rank says of itself. */
typedef struct slab_card {
  char host[64];
  char bus[32]; /* of the GPU, which each process numbers for itself */
  int64_t process;
  uint64_t library; /* where it is loaded: processes of two containers may have one number */
  cu_address address;
  cu_device device;
  cu_context context;
  cu_ipc_handle handle;
  bool has_handle;
} slab_card;

/* ---- own memory ---- */

static hr_status allocate(const hr_communicator *c, hr_error *error)
{
  const hr_cuda *cuda = hr_rank_cuda(c);
  hr_cuda_ranks *r = hr_rank_state(c);
  const size_t bytes = (size_t)(hr_ceil_div(hr_slab_bytes((int)c->meeting->size), PAGE_BYTES) * PAGE_BYTES);
  const size_t flagged = (size_t)hr_slab_copies(0, (int)c->meeting->size, 0, 1); /* whose zeros are no messages */
  void *host = NULL;
  HR_TRY(HR_CU(&cuda->driver, cuMemHostAlloc, (&host, sizeof *r->missing, CU_HOST_MAPPED), error));
  r->missing = host;
  *r->missing = 0;
  HR_TRY(HR_CU(&cuda->driver, cuMemHostGetDevicePointer_v2, (&r->missing_on_device, host, 0), error));
  HR_TRY(HR_CU(&cuda->driver, cuEventCreate, (&r->reached, CU_EVENT_NO_TIMES), error));
  HR_TRY(HR_CU(&cuda->driver, cuMemAlloc_v2, (&r->slab, bytes), error));
  HR_TRY(HR_CU(&cuda->driver, cuMemsetD8Async, (r->slab, 0, flagged, cuda->stream), error));
  return HR_CU(&cuda->driver, cuStreamSynchronize, (cuda->stream), error);
}

static hr_status make_card(const hr_communicator *c, slab_card *card, hr_error *error)
{
  const hr_cuda *cuda = hr_rank_cuda(c);
  memset(card, 0, sizeof *card); /* padding is sent, too */
  HR_TRY(hr_cuda_enter(cuda, error));
  hr_status status = allocate(c, error);
  gethostname(card->host, sizeof card->host - 1);
  card->process = getpid();
  card->library = (uintptr_t)&hr_cuda_share_slabs;
  cuda->driver.cuDeviceGetPCIBusId(card->bus, sizeof card->bus - 1, cuda->device);
  card->address = hr_rank_state(c)->slab;
  card->device = cuda->device;
  card->context = cuda->context;
  if (status == HR_OK && !c->meeting->one_process)
    card->has_handle = cuda->driver.cuIpcGetMemHandle(&card->handle, hr_rank_state(c)->slab) == CU_SUCCESS;
  hr_cuda_leave(cuda);
  return status;
}

/* ---- the others' ---- */

static bool no_slabs(hr_cuda_ranks *r, const char *format, const slab_card *own, const slab_card *other)
{
  char first[96], second[96];
  snprintf(first, sizeof first, "cuda:%d on %s", own->device, own->host);
  snprintf(second, sizeof second, "cuda:%d on %s", other->device, other->host);
  snprintf(r->no_peers.message, sizeof r->no_peers.message, format, first, second);
  return false;
}

static bool one_process(const slab_card *a, const slab_card *b)
{
  return a->process == b->process && a->library == b->library && strcmp(a->host, b->host) == 0;
}

/* False, with the reason in no_peers, where the GPUs do not see each other. In the device's context. */
static bool see_other(const hr_communicator *c, const slab_card *own, const slab_card *other, cu_address *address)
{
  const hr_driver *driver = &hr_rank_cuda(c)->driver;
  hr_cuda_ranks *r = hr_rank_state(c);
  const bool same_process = one_process(own, other);
  int sees = 0;
  if (strcmp(own->host, other->host) != 0)
    return no_slabs(r, "%s and %s are on two hosts", own, other);
  *address = other->address;
  if (same_process && own->context == other->context)
    return true;
  if (same_process && (driver->cuDeviceCanAccessPeer(&sees, own->device, other->device) != CU_SUCCESS || !sees))
    return no_slabs(r, "%s has no access to memory of %s", own, other);
  if (same_process) {
    const cu_result enabled = driver->cuCtxEnablePeerAccess(other->context, 0);
    return enabled == CU_SUCCESS || enabled == PEER_ACCESS_ALREADY_ENABLED ||
           no_slabs(r, "%s gets no access to memory of %s", own, other);
  }
  return (other->has_handle &&
          driver->cuIpcOpenMemHandle_v2(address, other->handle, IPC_LAZY_PEER_ACCESS) == CU_SUCCESS) ||
         no_slabs(r, "%s cannot open memory of %s", own, other);
}

static bool see_others(const hr_communicator *c, const slab_card *cards)
{
  hr_cuda_ranks *r = hr_rank_state(c);
  const slab_card *own = &cards[c->meeting->rank];
  for (int64_t i = 0; i < c->meeting->size; i++) {
    r->slabs[i] = own->address;
    if (i == c->meeting->rank)
      continue;
    if (!see_other(c, own, &cards[i], &r->slabs[i]))
      return false;
    r->opened[i] = !one_process(own, &cards[i]);
  }
  return true;
}

static void forget_others(const hr_communicator *c)
{
  hr_cuda_ranks *r = hr_rank_state(c);
  for (int64_t i = 0; i < HR_ALL_REDUCE_RANKS_MAX; i++) {
    if (r->opened[i])
      hr_rank_cuda(c)->driver.cuIpcCloseMemHandle(r->slabs[i]);
    r->opened[i] = false;
    r->slabs[i] = 0;
  }
}

/* Another process may still have it open, but writes no more into it: a call that is over has got what all others
 * wrote, but that they have read the messages of a call in two parts, which they write as they end theirs. */
void hr_cuda_free_slab(const hr_communicator *c)
{
  const hr_driver *driver = &hr_rank_cuda(c)->driver;
  hr_cuda_ranks *r = hr_rank_state(c);
  forget_others(c);
  if (r->slab)
    driver->cuMemFree_v2(r->slab);
  if (r->missing)
    driver->cuMemFreeHost((void *)(uintptr_t)r->missing);
  if (r->reached)
    driver->cuEventDestroy_v2(r->reached);
}

/* ---- all ranks of this process ---- */

static hr_status see_and_agree(hr_communicator *const *cs, int64_t count, const slab_card *cards, hr_error *error)
{
  bool seen[HR_ALL_REDUCE_RANKS_MAX] = {false}, all = true;
  for (int64_t i = 0; i < count; i++) {
    HR_TRY(hr_cuda_enter(hr_rank_cuda(cs[i]), error));
    all = see_others(cs[i], cards) && all;
    hr_cuda_leave(hr_rank_cuda(cs[i]));
  }
  seen[0] = all;
  if (!cs[0]->meeting->one_process)
    HR_TRY(hr_communicator_exchange(cs[0], "memory of GPUs", &all, sizeof all, seen, error));
  for (int64_t k = 0; k < cs[0]->meeting->size && !cs[0]->meeting->one_process; k++)
    all = all && seen[k];
  for (int64_t i = 0; i < count && !all; i++) {
    hr_cuda_ranks *r = hr_rank_state(cs[i]);
    HR_TRY(hr_cuda_enter(hr_rank_cuda(cs[i]), error));
    forget_others(cs[i]);
    hr_cuda_leave(hr_rank_cuda(cs[i]));
    if (!r->no_peers.message[0])
      snprintf(r->no_peers.message, sizeof r->no_peers.message, "another rank's GPU sees no memory of the others");
  }
  return HR_OK;
}

/* Two processes with one GPU, which threads of one process are refused before. */
static hr_status check_cards(const slab_card *cards, int64_t size, hr_error *error)
{
  for (int64_t i = 0; i < size; i++) {
    for (int64_t k = 0; k < i; k++) {
      if (cards[i].bus[0] && strcmp(cards[i].bus, cards[k].bus) == 0 && strcmp(cards[i].host, cards[k].host) == 0)
        return hr_fail(error, HR_ERROR_INVALID, "the GPU %s on %s is given twice, as ranks %" PRId64 " and %" PRId64,
                       cards[i].bus, cards[i].host, k, i);
    }
  }
  return HR_OK;
}

hr_status hr_cuda_share_slabs(hr_communicator *const *cs, int64_t count, hr_error *error)
{
  slab_card cards[HR_ALL_REDUCE_RANKS_MAX], own = {.process = 0};
  const int64_t size = cs[0]->meeting->size;
  if (size > HR_ALL_REDUCE_RANKS_MAX) {
    for (int64_t i = 0; i < count; i++)
      snprintf(hr_rank_state(cs[i])->no_peers.message, sizeof hr_rank_state(cs[i])->no_peers.message,
               "own kernels take up to %d ranks", HR_ALL_REDUCE_RANKS_MAX);
    return HR_OK;
  }
  for (int64_t i = 0; i < count; i++) {
    HR_TRY(make_card(cs[i], &own, error));
    cards[cs[i]->meeting->rank] = own;
  }
  if (!cs[0]->meeting->one_process) {
    HR_TRY(hr_communicator_exchange(cs[0], "memory of GPUs", &own, sizeof own, cards, error));
    HR_TRY(check_cards(cards, size, error));
  }
  return see_and_agree(cs, count, cards, error);
}
