/* SPDX-License-Identifier: Apache-2.0 */
/* NCCL between threads of this process: calls run in the order of their streams and wait there for the other ranks,
 * while kernels of theirs have the GPU. */
#include "machine.h"
#include "order.h"
#include "turns.h"

#include <condition_variable>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <sched.h>
#include <vector>

#define _Alignas alignas
extern "C" {
#include "runtime/cuda/collective/nccl.h"
}

using emulation::order;

namespace {

constexpr nccl_result FAILED = 1;

struct meeting {
  std::mutex lock;
  int ranks = 0, here = 0;
  unsigned long round = 0;
  bool aborted = false;
  std::vector<const void *> sent;
  std::map<std::pair<int, int>, std::deque<std::vector<char>>> letters; /* (from, to) */
};

std::mutex all_meetings;
std::map<long, std::shared_ptr<meeting>> meetings;

} // namespace

struct nccl_comm_st {
  std::shared_ptr<meeting> of;
  int rank;
};

namespace {

/* Gives the GPU away until the condition holds; false after an abort. */
bool wait_until(meeting &m, const std::function<bool()> &holds)
{
  for (;;) {
    {
      std::lock_guard<std::mutex> guard(m.lock);
      if (m.aborted || holds())
        return !m.aborted;
    }
    emulation::pass_turn();
    sched_yield();
  }
}

bool meet(meeting &m)
{
  unsigned long round;
  {
    std::lock_guard<std::mutex> guard(m.lock);
    round = m.round;
    if (++m.here == m.ranks)
      m.here = 0, m.round++;
  }
  return wait_until(m, [&] { return m.round != round; });
}

size_t bytes_of(int type)
{
  return type == NCCL_FP32 ? 4 : 2;
}

float load(const void *from, size_t i, int type)
{
  if (type == NCCL_FP32)
    return ((const float *)from)[i];
  const unsigned short bits = ((const unsigned short *)from)[i];
  if (type == NCCL_FP16)
    return emulation::from_half(bits);
  const unsigned wide = (unsigned)bits << 16;
  float value;
  memcpy(&value, &wide, 4);
  return value;
}

void store(void *to, size_t i, int type, float value)
{
  if (type == NCCL_FP32) {
    ((float *)to)[i] = value;
  } else if (type == NCCL_FP16) {
    ((unsigned short *)to)[i] = emulation::to_half(value);
  } else {
    unsigned bits;
    memcpy(&bits, &value, 4);
    const unsigned rounded = value == value ? (bits + 0x7FFF + (bits >> 16 & 1)) >> 16 : bits >> 16 | 1;
    const unsigned short narrow = (unsigned short)rounded;
    memcpy((char *)to + 2 * i, &narrow, 2);
  }
}

/* Each rank makes its result of what all have sent; nobody's is written before all have read. */
nccl_result together(nccl_comm comm, const void *send, void *receive, size_t bytes, cu_stream stream,
                     std::function<void(const std::vector<const void *> &, char *)> make)
{
  const int result = order(stream, [=] {
    meeting &m = *comm->of;
    {
      std::lock_guard<std::mutex> guard(m.lock);
      m.sent[(size_t)comm->rank] = send;
    }
    std::vector<char> own(bytes);
    if (!meet(m))
      return (int)FAILED;
    make(m.sent, own.data());
    if (!meet(m))
      return (int)FAILED;
    memcpy(receive, own.data(), bytes);
    return (int)CU_SUCCESS;
  });
  return result == CU_SUCCESS ? NCCL_SUCCESS : FAILED;
}

void add_up(const std::vector<const void *> &sent, size_t first, size_t count, int type, char *to)
{
  for (size_t i = 0; i < count; i++) {
    float sum = 0;
    for (const void *from : sent)
      sum += load(from, first + i, type);
    store(to, i, type, sum);
  }
}

} // namespace

extern "C" {

nccl_result ncclGetVersion(int *version)
{
  *version = 22809;
  return NCCL_SUCCESS;
}

const char *ncclGetErrorString(nccl_result)
{
  return "the emulated NCCL has an error";
}

nccl_result ncclGetUniqueId(nccl_id *id)
{
  static long made;
  std::lock_guard<std::mutex> guard(all_meetings);
  const long number = ++made;
  memset(id, 0, sizeof *id);
  memcpy(id, &number, sizeof number);
  return NCCL_SUCCESS;
}

nccl_result ncclCommInitRank(nccl_comm *comm, int ranks, nccl_id id, int rank)
{
  long number;
  memcpy(&number, &id, sizeof number);
  std::lock_guard<std::mutex> guard(all_meetings);
  std::shared_ptr<meeting> &m = meetings[number];
  if (!m)
    m = std::make_shared<meeting>();
  m->ranks = ranks;
  m->sent.resize((size_t)ranks);
  *comm = new nccl_comm_st{m, rank};
  return NCCL_SUCCESS;
}

nccl_result ncclCommAbort(nccl_comm comm)
{
  {
    std::lock_guard<std::mutex> guard(comm->of->lock);
    comm->of->aborted = true;
  }
  delete comm;
  return NCCL_SUCCESS;
}

nccl_result ncclCommDestroy(nccl_comm comm)
{
  delete comm;
  return NCCL_SUCCESS;
}

nccl_result ncclGroupStart(void)
{
  return NCCL_SUCCESS;
}

nccl_result ncclGroupEnd(void)
{
  return NCCL_SUCCESS;
}

nccl_result ncclAllReduce(const void *send, void *receive, size_t count, int type, int, nccl_comm comm,
                          cu_stream stream)
{
  return together(comm, send, receive, count * bytes_of(type), stream,
                  [=](const std::vector<const void *> &sent, char *to) { add_up(sent, 0, count, type, to); });
}

nccl_result ncclReduceScatter(const void *send, void *receive, size_t count, int type, int, nccl_comm comm,
                              cu_stream stream)
{
  const size_t first = (size_t)comm->rank * count;
  return together(comm, send, receive, count * bytes_of(type), stream,
                  [=](const std::vector<const void *> &sent, char *to) { add_up(sent, first, count, type, to); });
}

nccl_result ncclAllGather(const void *send, void *receive, size_t count, int type, nccl_comm comm, cu_stream stream)
{
  const size_t bytes = count * bytes_of(type);
  return together(comm, send, receive, bytes * (size_t)comm->of->ranks, stream,
                  [=](const std::vector<const void *> &sent, char *to) {
                    for (size_t r = 0; r < sent.size(); r++)
                      memcpy(to + r * bytes, sent[r], bytes);
                  });
}

nccl_result ncclBroadcast(const void *send, void *receive, size_t count, int type, int root, nccl_comm comm,
                          cu_stream stream)
{
  const size_t bytes = count * bytes_of(type);
  return together(comm, send, receive, bytes, stream,
                  [=](const std::vector<const void *> &sent, char *to) { memcpy(to, sent[(size_t)root], bytes); });
}

nccl_result ncclSend(const void *send, size_t count, int type, int peer, nccl_comm comm, cu_stream stream)
{
  const size_t bytes = count * bytes_of(type);
  const int result = order(stream, [=] {
    std::lock_guard<std::mutex> guard(comm->of->lock);
    comm->of->letters[{comm->rank, peer}].emplace_back((const char *)send, (const char *)send + bytes);
    return (int)CU_SUCCESS;
  });
  return result == CU_SUCCESS ? NCCL_SUCCESS : FAILED;
}

nccl_result ncclRecv(void *receive, size_t count, int type, int peer, nccl_comm comm, cu_stream stream)
{
  const size_t bytes = count * bytes_of(type);
  const int result = order(stream, [=] {
    std::deque<std::vector<char>> &box = comm->of->letters[{peer, comm->rank}];
    if (!wait_until(*comm->of, [&] { return !box.empty(); }))
      return (int)FAILED;
    std::lock_guard<std::mutex> guard(comm->of->lock);
    memcpy(receive, box.front().data(), bytes);
    box.pop_front();
    return (int)CU_SUCCESS;
  });
  return result == CU_SUCCESS ? NCCL_SUCCESS : FAILED;
}

} // extern "C"
