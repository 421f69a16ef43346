// The time of a training step, by op.
#pragma once

#include "autograd/tape.h"

#include <nlohmann/json_fwd.hpp>

#include <chrono>
#include <map>
#include <string>

namespace lacuna::apps {

class Profile final : public Observer {
 public:
  /// For a model on `device`: an op ends when the device has done its work.
  explicit Profile(Device device = Device::cpu) : device_(device) {}
  void before(Phase phase, const Operation& op, Label path) override;
  void after(Phase phase, const Operation& op, Label path, const Work& work, std::span<const Tensor> results) override;

  /// Time, calls, bytes and rates by op and direction, the largest first. `steps` and `seconds`: what was observed.
  std::string table(int steps, double seconds) const;
  nlohmann::ordered_json json(int steps) const;

 private:
  struct Entry {
    std::int64_t calls = 0;
    Work work;
    double seconds = 0;
  };
  std::vector<std::pair<std::string, Entry>> slowest_first() const;

  Device device_;
  std::map<std::string, Entry> entries_;
  std::chrono::steady_clock::time_point begin_;
};

}  // namespace lacuna::apps
