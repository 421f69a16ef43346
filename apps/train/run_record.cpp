#include "apps/train/run_record.h"

#include "apps/version.h"
#include "core/error.h"
#include "core/file.h"
#include "core/parallel.h"
#include "models/io/json_fields.h"

#include <fmt/chrono.h>
#include <unistd.h>

#include <array>
#include <ctime>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>

namespace lacuna::apps {
namespace {

using nlohmann::ordered_json;

std::string now() { return fmt::format("{:%FT%TZ}", fmt::gmtime(std::time(nullptr))); }

/// A word as a shell reads it back.
std::string in_shell(const std::string& word) {
  constexpr std::string_view plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_@%+=:,./-";
  if (!word.empty() && word.find_first_not_of(plain) == std::string::npos) return word;
  std::string quoted = "'";
  for (const char c : word) quoted += c == '\'' ? "'\\''" : std::string(1, c);
  return quoted + "'";
}

/// The words that this process was started with.
std::string command_line() {
  std::ifstream words("/proc/self/cmdline", std::ios::binary);
  std::string text;
  for (std::string word; std::getline(words, word, '\0');) text += (text.empty() ? "" : " ") + in_shell(word);
  return text;
}

ordered_json read_sessions(const std::filesystem::path& file) {
  ordered_json sessions = ordered_json::array();
  const std::optional<ordered_json> record = read_json_object(file);
  if (!record) return sessions;
  if (!record->contains("sessions") || !record->at("sessions").is_array())
    reject("{}: expected a list `sessions`; without the file the run continues with a new record", file.string());
  for (ordered_json session : record->at("sessions")) {
    if (!session.is_object()) reject("{}: expected each of `sessions` to be an object", file.string());
    if (session.value("outcome", ordered_json()) == "running") session["outcome"] = "killed";
    sessions.push_back(std::move(session));
  }
  return sessions;
}

}  // namespace

std::string host_name() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "";
}

RunRecord::RunRecord(std::filesystem::path file, int threads, std::int64_t step)
    : file_(std::move(file)), json_(std::make_unique<ordered_json>(ordered_json{{"sessions", read_sessions(file_)}})) {
  std::error_code ignored;
  (*json_)["sessions"].push_back({{"command", command_line()},
                                  {"directory", std::filesystem::current_path(ignored).string()},
                                  {"version", LACUNA_VERSION},
                                  {"commit", commit()},
                                  {"host", host_name()},
                                  {"processor", processor_model()},
                                  {"threads", threads},
                                  {"started", now()},
                                  {"ended", nullptr},
                                  {"seconds", 0.0},
                                  {"first_step", step},
                                  {"last_step", step},
                                  {"outcome", "running"}});
  update(step);
}

RunRecord::~RunRecord() = default;

void RunRecord::update(std::int64_t step, std::string_view outcome) {
  ordered_json& session = (*json_)["sessions"].back();
  session["seconds"] = std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  session["last_step"] = step;
  session["outcome"] = outcome;
  if (outcome != "running") session["ended"] = now();
  (*json_)["seconds"] = seconds();
  write_file_atomically(file_, json_->dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n");
}

double RunRecord::seconds() const {
  double sum = 0;
  for (const ordered_json& session : (*json_)["sessions"])
    if (session.contains("seconds") && session["seconds"].is_number()) sum += session["seconds"].get<double>();
  return sum;
}

}  // namespace lacuna::apps
