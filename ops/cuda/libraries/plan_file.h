// Plans of a library that were chosen by measurement. Bits of results hang on them, so a file in the user's cache
// folder keeps them: the first run on a card measures, and later ones take what it chose.
//
// Shapes for which two training steps in a row ask are measured when the second one asks: they recur, and it is before
// a step is captured. Until then, and where there is no file, the library's own first choice is taken.
#pragma once

#include "core/device.h"
#include "core/random.h"
#include "core/stream.h"

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace lacuna {
class Communicator;
}

namespace lacuna::cuda {

inline Device device_of(int index) { return {DeviceKind::cuda, static_cast<std::uint8_t>(index)}; }

class PlanFile {
 public:
  /// The card of the device, and a library with its version, decide on the file.
  PlanFile(int device, const std::string& library);

  /// The plan for `what`; empty: not measured.
  std::string find(const std::string& what) const;
  /// Adds a plan, and writes the file with what other runs have added meanwhile. Returns the plan to take: that of
  /// another run, where it was first. What cannot be written is noted once.
  std::string add(const std::string& what, const std::string& plan);
  /// Whether `what` is to be measured now. last_step: of the step that asked last, kept by the caller.
  bool is_due(std::optional<std::uint32_t>& last_step);

 private:
  std::filesystem::path file_;  // empty: no cache folder
  std::map<std::string, std::string> plans_{};
  std::int64_t asked_ = 0;  // shapes
  bool may_measure_ = true;
};

/// From now on all ranks take the plans that rank 0's files have, and none measures. Collective, before the first plan.
void agree_on_plans(Communicator& host);

/// The index of the fastest of `count` plans, or an earlier one that is as fast. `run` returns false for one that
/// cannot run. Waits for the stream.
std::size_t fastest(Stream stream, std::size_t count, const std::function<bool(std::size_t)>& run);

}  // namespace lacuna::cuda
