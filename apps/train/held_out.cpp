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
    held.are_hashes = json.contains("hashes");
    held.names = json.at(held.are_hashes ? "hashes" : "names").get<Samples>();
  } catch (const nlohmann::json::exception&) {
    reject(
        "{}: expected names and trained_on, as the run has written: without the file, a draw takes its place that may "
        "hold "
        "out samples that were trained on",
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

/// The names in the form of those that a run has recorded.
Samples names_as(const HeldOut& then, const HeldOut& now) {
  Samples names = now.names;
  if (then.are_hashes && now.are_texts) std::ranges::transform(now.names, names.begin(), hash_of_text);
  std::ranges::sort(names);
  return names;
}

/// The path within the first folder, which is that of the class where pictures lie in such.
std::string_view within_folder(std::string_view path) { return path.substr(path.find('/') + 1); }

/// Takes those out of both lists that lie in another folder now; returns them.
Samples take_moved(Samples& fresh, Samples& gone) {
  Samples moved;
  std::erase_if(fresh, [&](const std::string& name) {
    const auto was =
        std::ranges::find_if(gone, [&](const std::string& old) { return within_folder(old) == within_folder(name); });
    if (was == gone.end()) return false;
    gone.erase(was);
    moved.push_back(name);
    return true;
  });
  return moved;
}

/// How the samples differ from those of the run; empty if they do not.
std::string changes_since(const HeldOut& then, const HeldOut& now, const Samples& names) {
  Samples fresh = only_in(names, then.names), gone = only_in(then.names, names);
  std::vector<std::string> changes;
  const auto tell = [&](const Samples& of, std::string_view what) {
    if (of.empty()) return;
    changes.push_back(fmt::format("{} {}{}", of.size(), what, now.are_texts ? "" : fmt::format(" ({})", first_of(of))));
  };
  if (const std::int64_t more = now.trained_on - then.trained_on; more != 0)
    changes.push_back(fmt::format("{} {} to train on", std::abs(more), more > 0 ? "more" : "fewer"));
  if (!now.are_texts) tell(take_moved(fresh, gone), "held out that lie in another folder");
  tell(fresh, "newly held out");
  tell(gone, "no longer held out");
  return fmt::format("{}", fmt::join(changes, ", "));
}

}  // namespace

FollowedSamples follow_held_out(const fs::path& folder, bool data_given, Experiment& experiment) {
  HoldOut& how = experiment.data.source.hold_out;
  if (!experiment.samples.held_out) return {};
  const std::string path = experiment.data.source.path.string();
  const std::optional<HeldOut> then = read_held_out(folder / "held_out.json");
  if (!then) {
    how = data_given ? HoldOut::none : HoldOut::by_place;
    if (data_given)
      return {.note =
                  fmt::format("{}: all samples are evaluated, since the run has recorded none that it held out", path)};
    experiment.samples.size = describe_dataset(experiment.data.name, dataset_options(experiment, Split::train)).size;
    return {};
  }
  experiment.data.source.held_out_before = std::make_shared<const HeldOut>(*then);
  const DatasetInfo kept = describe_dataset(experiment.data.name, dataset_options(experiment, Split::train));
  const Samples names = names_as(*then, *kept.held_out);
  const std::string changes = changes_since(*then, *kept.held_out, names);
  experiment.samples.size = kept.size;
  if (!data_given && changes.empty()) return {};
  if (!data_given)
    return {.warning = fmt::format("{}: the samples have changed since the run began: {}", path, changes)};
  const std::int64_t all = std::ssize(names) + kept.held_out->trained_on, known = std::ssize(then->names);
  const std::int64_t found = known - std::ssize(only_in(then->names, names));
  if (2 * found < known) {
    how = HoldOut::none;
    if (found == 0)
      return {.note = fmt::format("{}: all {} samples are evaluated: none of those that the run held out is among them",
                                  path, all)};
    return {.warning =
                fmt::format("{}: all {} samples are evaluated: {} of the {} that the run held out are among them, "
                            "and others may have been trained on",
                            path, all, found, known)};
  }
  const std::string evaluated =
      fmt::format("{}: {} of {} samples are evaluated, as the run held them out", path, names.size(), all);
  if (changes.empty()) return {.note = evaluated};
  return {.warning = fmt::format("{}; its samples have changed: {}", evaluated, changes)};
}

void save_held_out(const fs::path& folder, const Experiment& experiment, const DatasetInfo& samples) {
  const fs::path file = folder / "held_out.json";
  if (!samples.held_out || experiment.data.source.hold_out != HoldOut::by_name) {
    std::error_code ignored;
    fs::remove(file, ignored);
    return;
  }
  const HeldOut& held = *samples.held_out;
  Samples names = held.names;
  if (held.are_texts) std::ranges::transform(held.names, names.begin(), hash_of_text);
  const nlohmann::ordered_json json{{"seed", experiment.data.source.seed},
                                    {"trained_on", held.trained_on},
                                    {held.are_texts ? "hashes" : "names", names}};
  write_file_atomically(file, json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n");
}

}  // namespace lacuna::apps
