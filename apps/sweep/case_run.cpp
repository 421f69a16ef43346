#include "apps/sweep/case_run.h"

#include "apps/command.h"
#include "apps/config/experiment.h"
#include "apps/config/yaml.h"
#include "core/error.h"
#include "core/file.h"
#include "models/io/json_fields.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

namespace lacuna::apps {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

ordered_json value_of(const SweepOverride& override) {
  if (!override.number) return override.text;
  const double number = *override.number;
  constexpr double exactly_counted = 0x1p53;
  if (number == std::floor(number) && std::abs(number) < exactly_counted) return static_cast<std::int64_t>(number);
  return number;
}

std::string read_all(const fs::path& path) {
  std::ifstream stream(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

std::string last_lines(const std::string& text, int lines) {
  const std::size_t end = text.find_last_not_of(" \r\n");
  if (end == std::string::npos) return {};
  std::size_t begin = end + 1;
  for (int i = 0; i < lines && begin > 0; ++i) {
    const std::size_t newline = begin < 2 ? std::string::npos : text.rfind('\n', begin - 2);
    begin = newline == std::string::npos ? 0 : newline + 1;
  }
  return text.substr(begin, end + 1 - begin);
}

}  // namespace

std::optional<std::string> failure_of(int code, const std::string& left, const std::string& said) {
  if (code != 0) {
    if (!said.empty()) return said;
    return code > 128 ? fmt::format("ended by signal {}", code - 128) : fmt::format("ended with code {}", code);
  }
  const ordered_json result = ordered_json::parse(left, nullptr, false);
  if (result.is_object()) return {};
  const std::string got = left.empty()            ? "nothing"
                          : result.is_discarded() ? "text that is not JSON"
                                                  : fmt::format("JSON of the type {}", result.type_name());
  return fmt::format("ended with code 0, but left no whole result: expected a JSON object, got {}{}{}", got,
                     said.empty() ? "" : "\n", said);
}

void read_record(const ordered_json& record, std::string_view origin, Result& result) {
  constexpr std::int64_t highest_exit_code = 255;
  const auto text_if_there = [&](const char* key) {
    return record.contains(key) ? text_in(record, key, origin) : std::string();
  };
  const std::string status = text_in(record, "status", origin);
  if (status != "done" && status != "failed")
    reject("{}: expected `status` to be \"done\" or \"failed\", got \"{}\"", origin, status);
  result.id = text_in(record, "id", origin);
  result.state = status == "done" ? Result::State::done : Result::State::failed;
  result.exit_code = static_cast<int>(count_in(record, "exit_code", origin, highest_exit_code));
  if (status == "failed")
    result.error = text_in(record, "error", origin);
  else
    result.figures = object_in(record, "result", origin);
  lacuna::number_in(record, "seconds", origin);
  result.warnings = text_if_there("warnings");
  result.run = text_if_there("run");
}

Result CaseRun::result(const std::string& config) const {
  Result result;
  result.id = case_.id;
  result.state = Result::State::unfinished;
  result.settings.emplace_back("config", config);
  for (const SweepOverride& setting : case_.settings) result.settings.emplace_back(setting.key, value_of(setting));
  return result;
}

std::string CaseRun::problem(const std::shared_ptr<OpenedFiles>& opened) const {
  try {
    read_configuration(case_.configurations, assignments(), opened);
  } catch (const Error& error) {
    return error.what();
  }
  return {};
}

std::optional<ordered_json> CaseRun::finished() const {
  ordered_json record = ordered_json::parse(read_all(file(".json")), nullptr, false);
  try {
    Result result;
    read_record(record, file(".json").string(), result);
    if (result.state == Result::State::failed || result.id != case_.id) return {};
  } catch (const Error&) {  // damaged, or written by another program: the case runs again
    return {};
  }
  // Files may have been moved since.
  record["config"] = configurations();
  record["overrides"] = overrides();
  if (trains()) record["run"] = run_folder().string();
  return record;
}

void CaseRun::start() {
  begin_ = std::chrono::steady_clock::now();
  if (is_as_read())
    process_.emplace(arguments(), file(".stderr"));
  else
    write_file_atomically(file(".stderr"), fmt::format("lacuna: {} changed after the sweep had begun; the same command "
                                                       "runs the case as it is now\n",
                                                       fmt::join(case_.configurations, ", or ")));
}

std::optional<int> CaseRun::poll() { return process_ ? process_->poll() : std::optional<int>(wrong_input); }

void CaseRun::stop(int signal) const {
  if (process_) process_->signal(signal);
}

ordered_json CaseRun::record(int code) const {
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin_;
  constexpr int lines = 12;
  const std::string left = read_all(file(".result")), said = last_lines(read_all(file(".stderr")), lines);
  const std::optional<std::string> failure = failure_of(code, left, said);
  ordered_json record{{"id", case_.id}, {"command", sweep_.command}};
  record["config"] = configurations();
  record["arguments"] = sweep_.arguments;
  record["overrides"] = overrides();
  record["status"] = failure ? "failed" : "done";
  record["exit_code"] = code;
  record["seconds"] = seconds.count();
  if (trains()) record["run"] = run_folder().string();
  if (failure) {
    record["error"] = *failure;
  } else {
    record["result"] = ordered_json::parse(left);
    if (!said.empty()) record["warnings"] = said;
  }
  write_file_atomically(file(".json"), record.dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n");
  forget();
  return record;
}

void CaseRun::forget() const {
  std::error_code ignored;
  for (const char* const ending : {".stderr", ".result"}) fs::remove(file(ending), ignored);
}

fs::path CaseRun::file(std::string_view ending) const {
  return sweep_.folder / "cases" / (case_.id + std::string(ending));
}

ordered_json CaseRun::configurations() const {
  if (case_.configurations.size() == 1) return case_.configurations.front();
  return case_.configurations;
}

ordered_json CaseRun::overrides() const {
  ordered_json all = ordered_json::object();
  for (const SweepOverride& setting : case_.settings) all[setting.key] = value_of(setting);
  return all;
}

bool CaseRun::is_as_read() const {
  try {
    return id_of(sweep_, case_) == case_.id;
  } catch (const Error&) {  // a file is gone
    return false;
  }
}

std::vector<std::string> CaseRun::arguments() const {
  std::vector<std::string> all{sweep_.command, "--json", file(".result").string()};
  for (const std::string& configuration : case_.configurations) all.insert(all.end(), {"-c", configuration});
  all.insert(all.end(), sweep_.arguments.begin(), sweep_.arguments.end());
  std::ranges::move(assignments(), std::back_inserter(all));
  if (!trains()) return all;
  // An interrupted call's run goes on, or is replaced if it came to no checkpoint.
  if (fs::is_symlink(run_folder() / "last"))
    all.insert(all.end(), {"--resume", run_folder().string()});
  else
    all.insert(all.end(), {"--overwrite", "output.dir=" + to_yaml(std::string_view(run_folder().string()))});
  return all;
}

std::vector<std::string> CaseRun::assignments() const {
  std::vector<std::string> all;
  for (const SweepOverride& override : case_.overrides) all.push_back(override.key + "=" + override.value);
  return all;
}

}  // namespace lacuna::apps
