#include "apps/train/crowding.h"

#include "apps/output/output.h"
#include "core/parallel.h"

#include <fmt/core.h>

#include <cstdio>
#include <cstdlib>

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

void note_if_shared(std::string_view precision) {
  double load = 0;
  constexpr double idle = 0.5;
  if (precision != "bf16" || threads() == 1 || ::getloadavg(&load, 1) != 1) return;
  if (load + threads() <= processors() + idle) return;
  print_error(
      fmt::format("lacuna: note: other processes are busy (load {:.1f}, {} processors): convolutions in bf16, whose "
                  "threads wait for each other, may take many times as long; train.threads=1 or "
                  "train.precision=f32 does not\n",
                  load, processors()));
}

}  // namespace lacuna::apps
