#include "apps/train/run_folder.h"

#include "apps/config/paths.h"
#include "apps/output/output.h"
#include "apps/train/event_log.h"
#include "core/file.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>
#include <vector>

namespace lacuna::apps {
namespace {

namespace fs = std::filesystem;

constexpr const char* metrics_file = "metrics.jsonl";
constexpr std::string_view unfinished = ".tmp";
// The files of a run beside its checkpoints, which `--overwrite` removes.
constexpr const char* written_names[] = {"last",         "best",          metrics_file,   "measured.json",
                                         "summary.json", "plan.json",     "record.json",  "config.yaml",
                                         "classes.json", "timeline.json", "held_out.json"};

/// `step-` and eight digits or more, perhaps with `.tmp`, before which numbers may stand (make_folder_beside): nothing
/// else among the checkpoints is ours.
bool is_checkpoint_name(std::string_view name) {
  constexpr std::string_view prefix = "step-", decimal = "0123456789";
  constexpr std::size_t digits = 8;
  if (!name.starts_with(prefix)) return false;
  name.remove_prefix(prefix.size());
  const std::size_t end = std::min(name.find_first_not_of(decimal), name.size());
  if (end < digits) return false;
  name.remove_prefix(end);
  if (name.empty()) return true;
  if (!name.ends_with(unfinished)) return false;
  name.remove_suffix(unfinished.size());
  return name.find_first_not_of(".0123456789") == std::string_view::npos;
}

std::string name_of_step(std::int64_t step) { return fmt::format("step-{:08}", step); }

bool is_link_name(std::string_view name) { return name == "last" || name == "best"; }

/// `RUN/` as `RUN`.
fs::path without_slash(const fs::path& path) { return path.has_filename() ? path : path.parent_path(); }

/// Why a folder without a configuration is no run, by what it holds.
[[noreturn]] void refuse_as_run(const fs::path& path) {
  std::error_code ignored;
  if (!fs::exists(path, ignored)) reject("{} does not exist: expected the folder of a run", path.string());
  if (!fs::is_directory(path, ignored)) reject("{} is no folder: expected that of a run", path.string());
  fs::path folder = without_slash(path.lexically_normal());
  if (folder == ".") folder = fs::current_path(ignored);
  const fs::path run = folder.has_parent_path() ? folder.parent_path() : ".";
  if (fs::is_regular_file(folder / "sweep.json", ignored))
    reject("{0} holds a sweep, not a run: its page is {0}/sweep.html{1}", folder.string(),
           fs::is_directory(folder / "runs", ignored)
               ? fmt::format(", and each folder in {}/runs is a run of its own", folder.string())
               : "");
  if (folder.filename() == "checkpoints" && fs::is_regular_file(run / "config.yaml", ignored))
    reject(
        "{0} holds the checkpoints of a run: expected the run, {1}, its latest checkpoint, {1}/last, or a folder in "
        "{0}",
        folder.string(), run.string());
  reject("{} holds no run: there is no config.yaml in it", path.string());
}

void remove_whole(const fs::path& path) {
  std::error_code failed;
  fs::remove_all(path, failed);
  if (failed) reject("cannot remove {}: {}", path.string(), failed.message());
}

bool is_checkpoint(const fs::path& path) {
  std::error_code ignored;
  return fs::is_regular_file(path / "checkpoint.json", ignored);
}

/// Removes a link. Tools that cannot make links leave a copy of the checkpoint, or a file with its path, under that
/// name: both are removed too. Any other folder stays.
void remove_link(const fs::path& link) {
  std::error_code ignored;
  const fs::file_status status = fs::symlink_status(link, ignored);
  if (fs::is_directory(status) && !is_checkpoint(link)) return;
  if (fs::exists(status)) remove_whole(link);
}

/// Points the link `name` in `folder` at `target`, in one step, and returns an empty text; where that is not
/// possible there is no link, and the text says why.
std::string move_link(const fs::path& folder, std::string_view name, const fs::path& target) {
  const fs::path temporary = folder / fmt::format("{}.tmp", name), link = folder / name;
  std::error_code failed;
  fs::remove(temporary, failed);
  fs::create_directory_symlink(target, temporary, failed);
  if (!failed) {
    if (fs::is_directory(fs::symlink_status(link, failed))) remove_link(link);
    fs::rename(temporary, link, failed);
  }
  if (failed) {
    std::error_code ignored;
    fs::remove(temporary, ignored);
    remove_link(link);
  }
  sync_folder(folder);
  return failed ? failed.message() : "";
}

nlohmann::ordered_json numbers_in(const nlohmann::ordered_json& json) {
  nlohmann::ordered_json numbers = nlohmann::ordered_json::object();
  for (const auto& [key, value] : json.items())
    if (value.is_number()) numbers[key] = value;
  return numbers;
}

/// Calls `take` for the lines of metrics.jsonl that are objects with a step.
template <class F>
void for_metrics(const fs::path& run, const F& take) {
  std::ifstream lines(run / metrics_file);
  for (std::string line; std::getline(lines, line);) {
    const auto json = nlohmann::ordered_json::parse(line, nullptr, false);
    if (json.is_object() && json.contains("step") && json["step"].is_number()) take(json);
  }
}

}  // namespace

RunFolder RunFolder::create(const fs::path& path, bool overwrite) {
  RunFolder folder(path);
  std::error_code failed;
  fs::create_directories(path, failed);
  if (failed) reject("cannot create {}: {}", path.string(), failed.message());
  folder.lock_ = std::make_shared<const RunLock>(path);
  const bool is_run = fs::exists(folder.configuration(), failed);
  if (is_run && !overwrite)
    reject(
        "{0} holds a run already: go on with it (--resume {0}), replace it (--overwrite), or choose another "
        "output.dir",
        path.string());
  if (!overwrite && fs::is_directory(folder.checkpoints(), failed) && !folder.saved_names().empty())
    reject("{} holds checkpoints without a config.yaml: replace them (--overwrite), or choose another output.dir",
           path.string());
  if (overwrite) {
    for (const char* const name : written_names) {
      if (is_link_name(name))
        remove_link(path / name);
      else
        fs::remove(path / name, failed);
      if (failed) reject("cannot remove {}: {}", (path / name).string(), failed.message());
    }
    EventLog::remove_all(path);
    if (fs::is_directory(folder.checkpoints(), failed))
      for (const std::string& name : folder.saved_names())
        if (name.ends_with(unfinished) || is_checkpoint(folder.checkpoints() / name)) folder.remove_checkpoint(name);
  }
  fs::create_directories(folder.checkpoints(), failed);
  if (failed) reject("cannot create {}: {}", folder.checkpoints().string(), failed.message());
  sync_folder(path);
  return folder;
}

RunFolder RunFolder::open(const fs::path& path) {
  RunFolder folder(path);
  std::error_code ignored;
  if (!fs::is_regular_file(folder.configuration(), ignored)) refuse_as_run(path);
  return folder;
}

RunFolder RunFolder::open_to_resume(const fs::path& path) {
  RunFolder folder = open(path);
  folder.lock_ = std::make_shared<const RunLock>(path);
  return folder;
}

std::optional<fs::path> RunFolder::newest() const {
  if (auto found = linked("last")) return found;
  // No link: it was not copied, cannot be made here, or the run was killed before it was.
  const std::vector<std::string> names = finished_names();
  if (!names.empty()) return checkpoints() / names.back();
  if (is_checkpoint(path_ / "last")) return path_ / "last";  // a copy of it alone
  return {};
}

fs::path RunFolder::last() const {
  if (auto found = newest()) return *found;
  reject("{} holds no checkpoint yet", path_.string());
}

fs::path RunFolder::checkpoint(const std::string& name) const {
  if (name == "last") return last();
  if (name == "best") return best();
  const std::vector<std::string> names = finished_names();
  if (std::ranges::find(names, name) == names.end())
    reject("{} has no checkpoint {}; it has {}", path_.string(), name,
           names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", ")));
  return checkpoints() / name;
}

std::optional<fs::path> RunFolder::whole_before(const fs::path& checkpoint) const {
  const std::vector<std::string> names = finished_names();
  for (auto name = names.rbegin(); name != names.rend(); ++name) {
    const fs::path older = checkpoints() / *name;
    if (*name < checkpoint.filename().string() && is_whole(older)) return older;
  }
  return {};
}

std::optional<fs::path> RunFolder::linked(std::string_view name) const {
  std::error_code failed;
  const fs::path target = fs::read_symlink(path_ / name, failed);
  if (failed || !is_checkpoint_name(target.filename().string())) return {};
  // By its name: a link may be absolute, and the run may have been moved.
  const fs::path found = checkpoints() / target.filename();
  return fs::is_directory(found, failed) ? std::optional(found) : std::nullopt;
}

fs::path RunFolder::best() const {
  if (auto found = linked("best")) return *found;
  const fs::path latest = last();
  if (linked("last")) return latest;  // nothing was evaluated
  if (const std::string name = best_name(read_manifest(latest).progress); !name.empty()) return checkpoints() / name;
  return is_checkpoint(path_ / "best") ? path_ / "best" : latest;
}

std::string RunFolder::best_name(const Progress& progress) const {
  // The checkpoint that was evaluated itself, with the best result.
  for (const std::string& name : finished_names()) {
    std::optional<Progress> there;
    try {
      there = read_manifest(checkpoints() / name).progress;
    } catch (const Error&) {  // damaged: an older one that nobody asked for
    }
    if (there && there->evaluated == there->step && there->last && there->last == progress.best) return name;
  }
  return {};
}

void RunFolder::remove_summary() const {
  std::error_code failed;
  fs::remove(summary(), failed);
  if (failed) reject("cannot remove {}: {}", summary().string(), failed.message());
}

void RunFolder::save_configuration(const std::string& yaml) const { write_file_atomically(configuration(), yaml); }

void RunFolder::save_plan(const std::string& json) const {
  if (json.empty())
    remove_whole(plan());
  else
    write_file_atomically(plan(), json);
}

void RunFolder::save_timeline(const std::string& json) const { write_file_atomically(path_ / "timeline.json", json); }

void RunFolder::save(const TrainedState& state, const Progress& progress, bool only_progress, bool is_best,
                     std::int64_t keep) const {
  const fs::path target = fs::path("checkpoints") / name_of_step(progress.step);
  if (only_progress)
    update_progress(path_ / target, progress);
  else
    write_checkpoint(path_ / target, state, progress);
  set_link("last", target);
  if (is_best) set_link("best", target);  // a run killed before this gets the link when it goes on
  remove_old_checkpoints(keep);
}

void RunFolder::set_link(std::string_view name, const fs::path& target) const {
  const std::string why = move_link(path_, name, target);
  if (why.empty() || std::exchange(warned_of_links_, true)) return;
  print_error(
      fmt::format("lacuna: warning: cannot set the link {}: {}; the run goes on without: `{}` and `{}` are found all "
                  "the same by commands that take a run\n",
                  (path_ / name).string(), why, (path_ / "last").string(), (path_ / "best").string()));
}

std::set<std::string> RunFolder::saved_names() const {
  std::set<std::string> names;  // the number of the step has leading zeros: the order is that of the steps
  std::error_code failed;
  fs::directory_iterator entry(checkpoints(), failed);
  for (; !failed && entry != fs::directory_iterator(); entry.increment(failed))
    if (std::string name = entry->path().filename().string(); is_checkpoint_name(name)) names.insert(std::move(name));
  if (failed && failed != std::errc::no_such_file_or_directory)
    reject("cannot read {}: {}", checkpoints().string(), failed.message());
  return names;
}

std::vector<std::string> RunFolder::finished_names() const {
  std::vector<std::string> names;
  for (const std::string& name : saved_names())
    if (!name.ends_with(unfinished)) names.push_back(name);
  return names;
}

void RunFolder::go_back_to(const fs::path& checkpoint, const Progress& progress) const {
  const std::string name = name_of_step(progress.step);
  if (is_link_name(checkpoint.filename().string())) {  // a copy of it alone
    std::error_code failed;
    fs::create_directories(checkpoints(), failed);
    if (!failed) fs::rename(checkpoint, checkpoints() / name, failed);
    if (failed) reject("cannot move {} into {}: {}", checkpoint.string(), checkpoints().string(), failed.message());
  }
  set_link("last", fs::path("checkpoints") / name);
  remove_leftovers(name);
  restore_best(progress);
}

void RunFolder::restore_best(const Progress& progress) const {
  if (const std::string name = best_name(progress); !name.empty())
    set_link("best", fs::path("checkpoints") / name);
  else
    remove_link(path_ / "best");
}

void RunFolder::remove_leftovers(const std::string& newest) const {
  for (const std::string& name : saved_names())
    if (name.ends_with(unfinished) || name > newest) remove_checkpoint(name);
  std::vector<fs::path> temporary;
  const auto look = [&](const fs::path& folder, const auto& is_ours) {
    std::error_code failed;
    fs::directory_iterator entry(folder, failed);
    for (; !failed && entry != fs::directory_iterator(); entry.increment(failed)) {
      const std::string name = entry->path().filename().string();
      if (name.ends_with(unfinished) && is_ours(name)) temporary.push_back(entry->path());
    }
  };
  look(path_, [](const std::string& name) {
    return std::ranges::any_of(written_names, [&](const char* written) { return name.starts_with(written); });
  });
  for (const std::string& name : finished_names())  // of a progress that was replaced
    look(checkpoints() / name, [](const std::string&) { return true; });
  for (const fs::path& path : temporary) remove_whole(path);
}

void RunFolder::remove_checkpoint(const std::string& name) const {
  // A removal that is cut short leaves nothing that bears the name of a checkpoint.
  fs::path folder = checkpoints() / name;
  if (!name.ends_with(unfinished)) {
    const fs::path whole = folder;
    folder += unfinished;
    remove_whole(folder);
    std::error_code failed;
    fs::rename(whole, folder, failed);
    if (failed) reject("cannot remove {}: {}", whole.string(), failed.message());
  }
  remove_whole(folder);
}

void RunFolder::remove_old_checkpoints(std::int64_t keep) const {
  const std::set<std::string> names = saved_names();
  const std::string newest = last().filename().string(), highest = best().filename().string();
  std::int64_t kept = 0;
  for (auto name = names.rbegin(); name != names.rend(); ++name) {
    if (!name->ends_with(unfinished) && (*name == newest || *name == highest || kept < keep)) {
      ++kept;
    } else {
      remove_checkpoint(*name);
    }
  }
}

CheckpointPath checkpoint_path(const fs::path& given) {
  std::error_code ignored;
  const fs::path path = expand_home(given);
  fs::path folder = without_slash(path);
  const std::string name = folder.filename().string();
  const fs::path run = folder.has_parent_path() ? folder.parent_path() : fs::path(".");
  if (is_link_name(name) && !fs::is_regular_file(folder / "config.yaml", ignored) &&
      fs::is_regular_file(run / "config.yaml", ignored))
    return {run, name};
  if (const fs::path target = fs::read_symlink(folder, ignored); !target.empty())
    if (is_checkpoint_name(target.filename().string())) folder = run / target;
  if (const std::string step = folder.filename().string(); is_checkpoint_name(step))
    return {without_slash((folder / "../..").lexically_normal()), step};
  return {path, ""};
}

void require_existing(const fs::path& given) {
  const fs::path run = checkpoint_path(given).run;
  std::error_code ignored;
  if (!fs::exists(run, ignored))
    reject("{} does not exist; expected a run, one of its checkpoints or a folder with a model", run.string());
}

std::string kept_metrics(std::istream& lines, const Progress& progress) {
  std::string kept;
  for (std::string line; std::getline(lines, line);) {
    const nlohmann::json json = nlohmann::json::parse(line, nullptr, false);
    if (!json.is_object() || !json.contains("step") || !json["step"].is_number_integer()) continue;
    const auto step = json["step"].get<std::int64_t>();
    if (step < 1 || step > progress.step) continue;
    if (json.contains("val_loss") && step == progress.step && progress.evaluated != step) continue;
    kept += line + "\n";
  }
  return kept;
}

void read_metrics(const fs::path& run, const std::function<void(const nlohmann::ordered_json&)>& take) {
  for_metrics(run, [&](const nlohmann::ordered_json& json) { take(numbers_in(json)); });
}

void read_tensor_figures(const fs::path& run,
                         const std::function<void(double step, const nlohmann::ordered_json&)>& take) {
  for_metrics(run, [&](const nlohmann::ordered_json& json) {
    if (!json.contains("tensors") || !json["tensors"].is_object()) return;
    nlohmann::ordered_json tensors = nlohmann::ordered_json::object();
    for (const auto& [key, figures] : json["tensors"].items())
      if (figures.is_object()) tensors[key] = numbers_in(figures);
    take(json["step"], tensors);
  });
}

MetricsLog::MetricsLog(const RunFolder& folder, const Progress& progress)
    : folder_(folder.path()), path_(folder_ / metrics_file) {
  std::ifstream before(path_);
  write_file_atomically(path_, kept_metrics(before, progress));
  stream_.open(path_, std::ios::app);
}

void MetricsLog::write(const nlohmann::ordered_json& line) {
  // Names of files may be no UTF-8.
  const std::string text = line.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
  if (!(stream_ << text << std::endl)) reject("cannot write {}: is the disk full?", path_.string());
}

std::optional<double> MetricsLog::last(const char* key) const {
  std::optional<double> found;
  read_metrics(folder_, [&](const nlohmann::ordered_json& noted) {
    if (noted.contains(key)) found = noted[key].get<double>();
  });
  return found;
}

}  // namespace lacuna::apps
