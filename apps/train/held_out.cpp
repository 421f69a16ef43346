#include "apps/train/held_out.h"

#include "apps/config/resolve.h"
#include "core/file.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

namespace lacuna::apps {
namespace {

namespace fs = std::filesystem;
using Samples = std::vector<std::string>;

std::optional<HeldOut> read_held_out(const fs::path& file) {
  std::ifstream stream(file);
  if (!stream) return std::nullopt;
  const auto json = nlohmann::json::parse(stream, nullptr, false);
  HeldOut held;
  try {
    held.trained_on = json.at("trained_on").get<std::int64_t>();
    held.names = json.at("names").get<Samples>();
  } catch (const nlohmann::json::exception&) {
    reject("{}: expected names and trained_on, as the run has written: remove the file to draw them anew",
           file.string());
  }
  std::ranges::sort(held.names);
  return held;
}

Samples only_in(const Samples& one, const Samples& other) {
  Samples names;
  std::ranges::set_difference(one, other, std::back_inserter(names));
  return names;
}

std::string first_of(const Samples& names) {
  constexpr std::size_t most = 3;
  const std::size_t count = std::min(names.size(), most);
  return fmt::format("{}{}", fmt::join(names.begin(), names.begin() + static_cast<std::ptrdiff_t>(count), ", "),
                     names.size() > most ? ", ..." : "");
}

}  // namespace

std::string follow_held_out(const fs::path& folder, bool data_given, Experiment& experiment) {
  HoldOut& how = experiment.data.source.hold_out;
  if (!experiment.samples.held_out) return {};
  const std::optional<HeldOut> then = read_held_out(folder / "held_out.json");
  if (!then) {
    how = data_given ? HoldOut::none : HoldOut::by_place;
    if (!data_given)
      experiment.samples.size = describe_dataset(experiment.data.name, dataset_options(experiment, Split::train)).size;
    return {};
  }
  experiment.data.source.held_out_before = std::make_shared<const HeldOut>(*then);
  const DatasetInfo kept = describe_dataset(experiment.data.name, dataset_options(experiment, Split::train));
  Samples names = kept.held_out->names;
  std::ranges::sort(names);
  if (data_given && (names != then->names || kept.held_out->trained_on != then->trained_on)) {
    how = HoldOut::none;
    return {};
  }
  experiment.samples.size = kept.size;
  const Samples fresh = only_in(names, then->names), gone = only_in(then->names, names);
  const std::int64_t more = kept.held_out->trained_on - then->trained_on;
  std::vector<std::string> changes;
  if (more != 0) changes.push_back(fmt::format("{} {} to train on", std::abs(more), more > 0 ? "more" : "fewer"));
  if (!fresh.empty()) changes.push_back(fmt::format("{} newly held out ({})", fresh.size(), first_of(fresh)));
  if (!gone.empty()) changes.push_back(fmt::format("{} no longer held out ({})", gone.size(), first_of(gone)));
  if (changes.empty()) return {};
  return fmt::format("{}: the samples have changed since the run began: {}", experiment.data.source.path.string(),
                     fmt::join(changes, ", "));
}

void save_held_out(const fs::path& folder, const Experiment& experiment, const DatasetInfo& samples) {
  const fs::path file = folder / "held_out.json";
  if (!samples.held_out || experiment.data.source.hold_out != HoldOut::by_name) {
    std::error_code ignored;
    fs::remove(file, ignored);
    return;
  }
  const nlohmann::ordered_json json{{"seed", experiment.data.source.seed},
                                    {"trained_on", samples.held_out->trained_on},
                                    {"names", samples.held_out->names}};
  write_file_atomically(file, json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n");
}

}  // namespace lacuna::apps
