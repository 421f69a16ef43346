#include "apps/train/crowding.h"

#include "core/parallel.h"

#include <fmt/core.h>

#include <cstdio>

namespace lacuna::apps {

void warn_if_crowded() {
  if (threads() <= processors()) return;
  std::fputs(
      fmt::format("lacuna: warning: {0} threads are to compute on {1} processors: they will wait for each other, and a "
                  "step may take many times as long. Set train.threads, or OMP_NUM_THREADS where that is 0 or not "
                  "given, to {1} at most\n",
                  threads(), processors())
          .c_str(),
      stderr);
}

}  // namespace lacuna::apps
