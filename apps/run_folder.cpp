#include "apps/run_folder.h"

#include "core/file.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <vector>

namespace lacuna::apps {
namespace {

namespace fs = std::filesystem;

/// Points the link `name` in `folder` at `target`, in one step.
void move_link(const fs::path& folder, std::string_view name, const fs::path& target) {
  const fs::path temporary = folder / fmt::format("{}.tmp", name);
  std::error_code failed;
  fs::remove(temporary, failed);
  fs::create_directory_symlink(target, temporary, failed);
  if (!failed) fs::rename(temporary, folder / name, failed);
  if (failed) reject("cannot set the link {}: {}", (folder / name).string(), failed.message());
  sync_folder(folder);
}

}  // namespace

RunFolder RunFolder::create(const fs::path& path, bool overwrite) {
  RunFolder folder(path);
  std::error_code failed;
  if (fs::exists(folder.configuration(), failed)) {
    if (!overwrite)
      reject(
          "{0} holds a run already: go on with it (--resume {0}), replace it (--overwrite), or choose another "
          "output.dir",
          path.string());
    for (const char* const name : {"checkpoints", "last", "best", "metrics.jsonl", "summary.json", "config.yaml"})
      fs::remove_all(path / name, failed);
  }
  fs::create_directories(folder.checkpoints(), failed);
  if (failed) reject("cannot create {}: {}", folder.checkpoints().string(), failed.message());
  return folder;
}

RunFolder RunFolder::open(const fs::path& path) {
  RunFolder folder(path);
  if (!fs::is_regular_file(folder.configuration()))
    reject("{} holds no run: there is no config.yaml in it", path.string());
  return folder;
}

fs::path RunFolder::linked(std::string_view name) const {
  std::error_code failed;
  const fs::path target = fs::read_symlink(path_ / name, failed);
  if (failed) reject("{} holds no checkpoint yet", path_.string());
  return path_ / target;
}

fs::path RunFolder::best() const { return linked(fs::is_symlink(path_ / "best") ? "best" : "last"); }

void RunFolder::save_configuration(const std::string& yaml) const { write_file_atomically(configuration(), yaml); }

void RunFolder::save(const Model& model, const Optimizer& optimizer, const Place& place, bool is_best,
                     std::int64_t keep) const {
  const fs::path target = fs::path("checkpoints") / fmt::format("step-{:08}", place.step);
  write_checkpoint(path_ / target, model, optimizer, place);
  move_link(path_, "last", target);
  if (is_best) move_link(path_, "best", target);
  remove_old_checkpoints(keep);
}

void RunFolder::remove_old_checkpoints(std::int64_t keep) const {
  std::set<std::string> names;  // the number of the step has leading zeros: the order is that of the steps
  for (const fs::directory_entry& entry : fs::directory_iterator(checkpoints()))
    names.insert(entry.path().filename().string());
  const std::string newest = last().filename().string(), highest = best().filename().string();
  std::int64_t kept = 0;
  for (auto name = names.rbegin(); name != names.rend(); ++name) {
    const bool unfinished = name->ends_with(".tmp");
    if (!unfinished && (*name == newest || *name == highest || kept < keep)) {
      ++kept;
    } else {
      std::error_code ignored;
      fs::remove_all(checkpoints() / *name, ignored);
    }
  }
}

MetricsLog::MetricsLog(const RunFolder& folder, std::int64_t resumed_at) : path_(folder.path() / "metrics.jsonl") {
  std::string kept;
  std::ifstream before(path_);
  for (std::string line; std::getline(before, line);) {
    const nlohmann::json json = nlohmann::json::parse(line, nullptr, false);
    if (json.is_object() && json.value("step", resumed_at + 1) <= resumed_at) kept += line + "\n";
  }
  write_file_atomically(path_, kept);
  stream_.open(path_, std::ios::app);
}

void MetricsLog::write(const nlohmann::ordered_json& line) {
  if (!(stream_ << line.dump() << std::endl)) reject("cannot write {}: is the disk full?", path_.string());
}

}  // namespace lacuna::apps
