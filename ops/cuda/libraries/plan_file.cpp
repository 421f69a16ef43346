#include "ops/cuda/libraries/plan_file.h"

#include "core/backend.h"
#include "core/cache_folder.h"
#include "core/communicator.h"
#include "core/file.h"
#include "ops/cuda_libraries.h"

#include <cuda_runtime_api.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <fstream>
#include <iterator>
#include <limits>
#include <mutex>
#include <span>
#include <sstream>
#include <utility>

namespace lacuna::cuda {
namespace {

namespace fs = std::filesystem;

// A line a plan, what and plan with a tab between; then the sum of these lines.
constexpr std::string_view end_mark = "sum ";

std::string sum_of(std::string_view lines) {
  return fmt::format("{}{:016x}\n", end_mark, XXH64(lines.data(), lines.size(), 0));
}

std::string text_of(const std::map<std::string, std::string>& plans) {
  std::string lines;
  for (const auto& [what, plan] : plans) lines += fmt::format("{}\t{}\n", what, plan);
  return lines + sum_of(lines);
}

/// Nothing: damaged.
std::optional<std::map<std::string, std::string>> plans_in(const std::string& text) {
  std::map<std::string, std::string> plans;
  if (text.empty()) return plans;
  const std::size_t end = text.rfind(end_mark);
  if (end == std::string::npos || text.substr(end) != sum_of(std::string_view(text).substr(0, end))) return {};
  std::istringstream lines(text.substr(0, end));
  for (std::string line; std::getline(lines, line);) {
    const std::size_t tab = line.find('\t');
    if (tab == std::string::npos) return {};
    plans[line.substr(0, tab)] = line.substr(tab + 1);
  }
  return plans;
}

std::string content_of(const fs::path& file) {
  std::error_code failed;
  if (!fs::is_regular_file(file, failed)) return {};
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

/// Other processes wait for a folder that this one holds. A file system without locks has none.
class FolderLock {
 public:
  explicit FolderLock(const fs::path& folder)
      : descriptor_(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
    while (::flock(descriptor_, LOCK_EX) != 0 && errno == EINTR) {
    }
  }
  ~FolderLock() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  int descriptor_;
};

fs::path plans_folder() {
  const fs::path cache = cache_folder();
  return cache.empty() ? cache : cache / "plans";
}

/// The plans of a file. Of a damaged one none, which is noted.
std::map<std::string, std::string> read(const fs::path& file, const std::string& text) {
  if (auto plans = plans_in(text)) return std::move(*plans);
  note_library(
      fmt::format("{} is damaged: plans of products and convolutions are measured again, and results may have "
                  "other bits than those of earlier runs",
                  file.string()));
  return {};
}

/// Rank 0's files by name, once the ranks have agreed.
std::optional<std::map<std::string, std::string>>& agreed() {
  static std::optional<std::map<std::string, std::string>> files;
  return files;
}

}  // namespace

PlanFile::PlanFile(int device, const std::string& library) {
  std::string name = fmt::format("{} {}", backend(device_of(device)).name(device), library);
  std::ranges::replace_if(
      name, [](unsigned char c) { return std::isalnum(c) == 0 && c != '.'; }, '-');
  if (const fs::path folder = plans_folder(); !folder.empty()) file_ = folder / name;
  if (agreed()) {
    may_measure_ = false;
    if (const auto given = agreed()->find(name); given != agreed()->end())
      plans_ = read(file_, given->second);
    else
      note_library(
          fmt::format("{}: rank 0 has no measured plans of products and convolutions, and several ranks measure none. "
                      "A few steps on one GPU measure them",
                      name));
  } else if (!file_.empty()) {
    plans_ = read(file_, content_of(file_));
  }
}

std::string PlanFile::find(const std::string& what) const {
  const auto found = plans_.find(what);
  return found == plans_.end() ? "" : found->second;
}

std::string PlanFile::add(const std::string& what, const std::string& plan) {
  plans_[what] = plan;
  if (file_.empty()) return plan;
  try {
    std::error_code failed;
    fs::create_directories(file_.parent_path(), failed);  // AtomicFile says what is wrong
    const FolderLock lock(file_.parent_path());
    if (auto others = plans_in(content_of(file_))) {
      others->merge(plans_);
      plans_ = std::move(*others);
    }
    write_file_atomically(file_, text_of(plans_));
  } catch (const Error& error) {
    note_library(fmt::format("Measured plans could not be kept, and later runs may have other bits: {}", error.what()));
  }
  return plans_.at(what);
}

bool PlanFile::is_due(std::optional<std::uint32_t>& last_step) {
  constexpr std::int64_t most_asked = 1000;  // more shapes: they vary, and measuring them all does not pay
  const RandomState& state = random_state();
  if (last_step && state == RandomState{}) return false;  // an evaluation between two steps
  if (!last_step) ++asked_;
  const bool recurs = last_step && *last_step + 1 == state.step;
  last_step = state.step;
  const bool is_captured = state.clock != nullptr;
  return recurs && may_measure_ && !is_captured && !file_.empty() && asked_ <= most_asked;
}

void agree_on_plans(Communicator& host) {
  std::string all;  // names and contents, each with a zero behind
  if (host.rank() == 0 && !agreed()) {
    std::error_code failed;
    for (const fs::directory_entry& entry : fs::directory_iterator(plans_folder(), failed))
      if (const std::string text = content_of(entry.path()); plans_in(text))
        all += entry.path().filename().string() + '\0' + text + '\0';
  }
  std::uint64_t bytes = all.size();
  host.broadcast(std::as_writable_bytes(std::span(&bytes, 1)), 0);
  all.resize(bytes);
  host.broadcast(std::as_writable_bytes(std::span(all)), 0);
  if (agreed()) return;
  std::map<std::string, std::string>& files = agreed().emplace();
  std::istringstream parts(all);
  for (std::string name, text; std::getline(parts, name, '\0') && std::getline(parts, text, '\0');) files[name] = text;
}

namespace {
struct Event {
  Event() { cudaEventCreate(&event); }
  ~Event() { cudaEventDestroy(event); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  cudaEvent_t event = nullptr;
};
}  // namespace

std::size_t fastest(Stream stream, std::size_t count, const std::function<bool(std::size_t)>& run) {
  constexpr int rounds = 3;
  constexpr float gain = 0.98F;  // less is noise
  const Event begin, end;
  std::size_t best = 0;
  float least = std::numeric_limits<float>::infinity();  // ms
  for (std::size_t i = 0; i < count; ++i) {
    if (!run(i)) {               // loads its kernels, too
      (void)cudaGetLastError();  // or the next kernel would report its error
      continue;
    }
    float own = std::numeric_limits<float>::infinity();
    for (int round = 0; round < rounds; ++round) {
      cudaEventRecord(begin.event, stream);
      run(i);
      cudaEventRecord(end.event, stream);
      float took = 0;
      if (cudaEventSynchronize(end.event) == cudaSuccess &&
          cudaEventElapsedTime(&took, begin.event, end.event) == cudaSuccess)
        own = std::min(own, took);
    }
    if (own < gain * least) {
      least = own;
      best = i;
    }
  }
  return best;
}

}  // namespace lacuna::cuda
