#include "apps/crowding.h"

#include "core/parallel.h"

#include <fmt/core.h>

#include <cstdio>
#include <utility>

namespace lacuna::apps {

void warn_if_crowded() {
  static bool said = false;
  if (threads() <= processors() || std::exchange(said, true)) return;
  std::fputs(
      fmt::format("lacuna: warning: {0} threads are to compute, but this process has processors for {1}: those that "
                  "wait for each other there make a step many times slower. Set train.threads (where that is 0, "
                  "OMP_NUM_THREADS) to {1} at most\n",
                  threads(), processors())
          .c_str(),
      stderr);
}

}  // namespace lacuna::apps
