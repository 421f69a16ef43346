#include "apps/train/measured_rates.h"

#include "core/error.h"
#include "core/file.h"
#include "core/parallel.h"
#include "core/vector.h"

#include <fmt/core.h>

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>

namespace lacuna::apps {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

struct NamedRate {
  const char* name;
  double Rates::*rate;
};
constexpr NamedRate named[] = {{"bytes", &Rates::bytes}, {"dithered", &Rates::dithered}, {"rotated", &Rates::rotated}};

std::string entry_name() {
  return fmt::format("{}, vectors of {} bytes, {} threads, lacuna {} {}", processor_model(), vector_bytes, threads(),
                     LACUNA_VERSION, LACUNA_BUILD);
}

/// What the file holds; nothing where there is none, or it is damaged.
json read_file() {
  std::ifstream stream(rates_file());
  json all = json::parse(stream, nullptr, false);
  return all.is_object() ? all : json::object();
}

std::optional<Rates> rates_in(const json& all) {
  const auto entry = all.find(entry_name());
  if (entry == all.end() || !entry->is_object()) return {};
  Rates rates;
  for (const auto& [name, rate] : named) {
    const auto value = entry->find(name);
    if (value == entry->end() || !value->is_number()) return {};
    rates.*rate = value->get<double>();
    if (!std::isfinite(rates.*rate) || rates.*rate <= 0) return {};
  }
  return rates;
}

/// Held while rates are looked up, measured and written: of several processes the first measures, by itself, and the
/// others take what it found.
class RatesLock {
 public:
  explicit RatesLock(const fs::path& file) : descriptor_(::open(file.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0666)) {
    if (descriptor_ < 0) return;
    do held_ = ::flock(descriptor_, LOCK_EX) == 0;
    while (!held_ && errno == EINTR);
  }
  ~RatesLock() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  RatesLock(const RatesLock&) = delete;
  RatesLock& operator=(const RatesLock&) = delete;

  /// Not where nothing can be written, or locked.
  bool held() const { return held_; }

 private:
  int descriptor_;
  bool held_ = false;
};

/// Nominal ones where none can be kept: measured anew in every run, they would now and then give another plan, and one
/// seed other bits.
Rates kept_or_measured() {
  const fs::path file = rates_file();
  if (file.empty()) return {};
  std::error_code failed;
  fs::create_directories(file.parent_path(), failed);
  const RatesLock lock(file.string() + ".lock");
  if (const std::optional<Rates> kept = rates_in(read_file())) return *kept;
  if (!lock.held()) return {};
  const Rates measured = measure_rates();
  json all = read_file(), entry;
  for (const auto& [name, rate] : named) entry[name] = measured.*rate;
  all[entry_name()] = entry;
  try {
    write_file_atomically(file, all.dump(2) + "\n");
  } catch (const Error&) {
    return {};
  }
  return measured;
}

}  // namespace

fs::path rates_file() {
  const auto folder = [](const char* variable) {
    const char* const value = std::getenv(variable);
    return value != nullptr && *value == '/' ? fs::path(value) : fs::path();
  };
  if (const fs::path cache = folder("XDG_CACHE_HOME"); !cache.empty()) return cache / "lacuna" / "rates.json";
  const fs::path home = folder("HOME");
  return home.empty() ? fs::path() : home / ".cache" / "lacuna" / "rates.json";
}

const Rates& measured_rates() {
  static std::map<int, Rates> by_threads;
  const auto known = by_threads.find(threads());
  return known != by_threads.end() ? known->second : by_threads.emplace(threads(), kept_or_measured()).first->second;
}

}  // namespace lacuna::apps
