/* SPDX-License-Identifier: Apache-2.0 */
#include "turns.h"

#include <condition_variable>
#include <cstdint>
#include <mutex>

namespace emulation {

static std::mutex door;
static std::condition_variable moved;
static uint64_t asked, served; /* tickets */
static thread_local unsigned held;

static void take()
{
  std::unique_lock<std::mutex> lock(door);
  uint64_t ticket = asked++;
  moved.wait(lock, [ticket] { return served == ticket; });
}

static void give()
{
  std::lock_guard<std::mutex> lock(door);
  served++;
  moved.notify_all();
}

turn::turn()
{
  if (held++ == 0)
    take();
}

turn::~turn()
{
  if (--held == 0)
    give();
}

bool others_wait()
{
  std::lock_guard<std::mutex> lock(door);
  return asked > served + 1;
}

void pass_turn()
{
  give();
  take();
}

} // namespace emulation
