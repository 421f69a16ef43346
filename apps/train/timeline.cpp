#include "apps/train/timeline.h"

#include "apps/config/resolve.h"
#include "apps/train/measure.h"
#include "autograd/checkpoint.h"
#include "autograd/observer.h"
#include "core/backend.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <regex>

namespace lacuna::apps {
namespace {

using nlohmann::ordered_json;

constexpr std::ptrdiff_t most_points = 480;  // a chart has hardly more columns of pixels

/// The block that a module's path lies in: `blocks.3.attn.qkv` lies in `blocks.3`, `layers.0.blocks.1.mlp` in
/// `layers.0.blocks.1`. The first name of the path if it lies in none.
std::string block_of(std::string_view path) {
  static const std::regex block(R"((?:[^.]+\.)*?[A-Za-z_]+\d*\.\d+(?:\.blocks\.\d+)?(?=\.|$))");
  std::match_results<std::string_view::const_iterator> found;
  if (std::regex_search(path.begin(), path.end(), found, block, std::regex_constants::match_continuous))
    return found.str();
  return std::string(path.substr(0, path.find('.')));
}

/// Samples the ledger around each op.
class Timeline final : public Observer {
 public:
  Timeline(Device device, const CostTable& costs) : device_(device), account_(ledger(device)), costs_(costs) {
    if (device != Device::meta) clock_ = Clock::now();
    account_.reset_peak();
    phases_.emplace_back("forward", 0.0);
  }

  void before(Phase phase, const Operation&, Label path) override {
    const Pause pause(*this);
    note();
    const bool forward = phase == Phase::forward && !is_recomputing();
    if (const std::size_t group = group_of(path); forward && std::ranges::find(order_, group) == order_.end())
      order_.push_back(group);
    const char* const name = forward ? "forward" : "backward";
    if (phases_.back().first != name) phases_.emplace_back(name, seconds_);
  }
  void after(Phase, const Operation&, Label, const Work& work, std::span<const Tensor>) override {
    const Pause pause(*this);
    if (!clock_) seconds_ += costs_.op_seconds(work.macs, work.bytes);
    note();
  }

  /// The step is over.
  ordered_json finish() {
    phases_.emplace_back("update", 0.0);
    const Pause pause(*this);
    phases_.back().second = points_.empty() ? 0 : points_.back().seconds;
    if (!clock_) {  // reads gradients and state, writes parameters and state
      const Bytes& live = account_.highest();
      const std::int64_t state = at(live, Purpose::optimizer) + at(live, Purpose::gradients);
      seconds_ += costs_.op_seconds(0, 2 * state);
    }
    note();
    const Bytes now = account_.live();
    points_.push_back({.seconds = seconds_, .purposes = now, .groups = groups_of(account_.holders())});
    return json();
  }

 private:
  using Clock = std::chrono::steady_clock;
  struct Point {
    double seconds = 0;
    Bytes purposes{};
    std::vector<std::int64_t> groups{};  // bytes, by number
    std::int64_t total() const {
      std::int64_t sum = 0;
      for (const std::int64_t bytes : purposes) sum += bytes;
      return sum;
    }
  };

  /// Sampling takes no time of the step.
  class Pause {
   public:
    explicit Pause(Timeline& timeline) : timeline_(timeline) {
      synchronize(timeline.device_);
      if (timeline.clock_) timeline.seconds_ += std::chrono::duration<double>(Clock::now() - *timeline.clock_).count();
    }
    ~Pause() {
      if (timeline_.clock_) timeline_.clock_ = Clock::now();
    }
    Pause(const Pause&) = delete;
    Pause& operator=(const Pause&) = delete;

   private:
    Timeline& timeline_;
  };

  std::size_t group_of(Label path) {
    const auto [known, is_new] = group_by_path_.emplace(path, 0);
    if (!is_new) return known->second;
    const std::string block = path.text().empty() ? "outside of modules" : block_of(path.text());
    const auto same = std::ranges::find(groups_, block);
    known->second = static_cast<std::size_t>(same - groups_.begin());
    if (same == groups_.end()) groups_.push_back(block);
    return known->second;
  }
  std::vector<std::int64_t> groups_of(const std::vector<Held>& holders) {
    std::vector<std::int64_t> bytes;
    for (const Held& held : holders) {
      const std::size_t group = group_of(held.owner.path);
      bytes.resize(std::max(bytes.size(), group + 1));
      bytes[group] += held.bytes;
    }
    return bytes;
  }

  /// Adds the highest moment since the last call.
  void note() {
    const std::vector<Held> holders = account_.holders_at_peak();
    Point point{.seconds = seconds_, .groups = groups_of(holders)};
    for (const Held& held : holders) at(point.purposes, held.owner.purpose) += held.bytes;
    const Bytes highest = account_.highest();
    for (std::size_t i = 0; i < highest.size(); ++i) highest_[i] = std::max(highest_[i], highest[i]);
    if (account_.peak() > peak_.peak) {
      peak_.peak = account_.peak();
      peak_.at_peak = holders;
      peak_.brought_to_peak = account_.brought_to_peak();
    }
    points_.push_back(std::move(point));
    account_.reset_peak();
  }

  /// The points that a chart shows: of neighbours the one with the most bytes.
  std::vector<Point> shown() const {
    const auto count = std::ssize(points_), parts = std::min(most_points, count - 1);
    std::vector<Point> chosen;
    for (std::ptrdiff_t i = 0; i < parts; ++i)
      chosen.push_back(*std::max_element(points_.begin() + (count - 1) * i / parts,
                                         points_.begin() + (count - 1) * (i + 1) / parts,
                                         [](const Point& a, const Point& b) { return a.total() < b.total(); }));
    chosen.push_back(points_.back());
    return chosen;
  }

  ordered_json json() const {
    const std::vector<Point> points = shown();
    std::vector<std::size_t> order = order_;
    for (std::size_t i = 0; i < groups_.size(); ++i)
      if (std::ranges::find(order, i) == order.end()) order.push_back(i);
    ordered_json json{{"time", clock_ ? "measured" : "predicted"}, {"phases", phases_}};
    for (const Point& point : points) {
      json["seconds"].push_back(point.seconds);
      for (std::size_t i = 0; i < point.purposes.size(); ++i)
        json["by_purpose"][std::string(name_of(static_cast<Purpose>(i)))].push_back(point.purposes[i]);
      for (const std::size_t i : order)
        json["by_module"][groups_[i]].push_back(i < point.groups.size() ? point.groups[i] : 0);
    }
    const auto highest = std::ranges::max_element(points, {}, &Point::total);
    json["peak"] = {{"point", highest - points.begin()},
                    {"bytes", peak_.peak},
                    {"taken_for", place_of_peak(peak_)},
                    {"holders", lacuna::describe(peak_.at_peak, 8)}};
    for (std::size_t i = 0; i < highest_.size(); ++i)
      json["highest"][std::string(name_of(static_cast<Purpose>(i)))] = highest_[i];
    return json;
  }

  Device device_;
  Ledger& account_;
  const CostTable& costs_;
  std::optional<Clock::time_point> clock_{};  // when the last sample was done; nothing on `meta`
  double seconds_ = 0;                        // of the step
  std::vector<std::pair<std::string, double>> phases_{};
  std::vector<Point> points_{};
  std::vector<std::string> groups_{};
  std::vector<std::size_t> order_{};  // of groups in forward
  std::map<Label, std::size_t> group_by_path_{};
  Bytes highest_{};
  Measurement peak_{};
};

}  // namespace

ordered_json record_timeline(Setup& setup, const Experiment& experiment, const CostTable& costs) {
  const PlannedDeviceScope planned = planned_device(experiment);
  setup.trainer().step(example(experiment, setup), 0, experiment.optimizer.lr);
  std::vector<Batch> batch = example(experiment, setup);
  Timeline timeline(setup.model().context().device, costs);
  setup.trainer().step(std::move(batch), 1, experiment.optimizer.lr, {.observer = &timeline});
  return timeline.finish();
}

}  // namespace lacuna::apps
