// lacuna sweep: a command over a grid of configurations, one process a case.
#include "apps/command.h"
#include "apps/config/configuration.h"
#include "apps/config/yaml.h"
#include "apps/output.h"
#include "apps/report/page.h"
#include "apps/sweep/process.h"
#include "apps/sweep/sweep_file.h"
#include "apps/sweep/sweep_record.h"
#include "apps/train/interrupt.h"
#include "apps/train/run_lock.h"
#include "core/error.h"
#include "core/file.h"

#include <fmt/ranges.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <csignal>
#include <fstream>
#include <iterator>
#include <list>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>
#include <utility>

namespace lacuna::apps {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;
using Clock = std::chrono::steady_clock;

constexpr auto polling_interval = std::chrono::milliseconds(5);

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

/// The files of a case, and how it is run.
class CaseRun {
 public:
  CaseRun(const Sweep& sweep, const SweepCase& one) : sweep_(sweep), case_(one) {}

  const SweepCase& what() const { return case_; }

  /// What is wrong with its configuration, or nothing.
  std::string problem() const {
    try {
      read_configuration(case_.configurations, assignments());
    } catch (const Error& error) {
      return error.what();
    }
    return {};
  }

  /// What an earlier call found, unless that was a failure.
  std::optional<ordered_json> finished() const {
    ordered_json record = ordered_json::parse(read_all(file(".json")), nullptr, false);
    try {
      const Result result = to_result(record, file(".json").string());
      if (result.failed || result.id != case_.id) return {};
      // Both may have been moved since, or are called by another name.
      record["config"] = configurations();
      if (trains()) record["run"] = run_folder().string();
    } catch (const Error&) {  // damaged, or nothing that a sweep has written: the case runs again
      return {};
    }
    return record;
  }

  /// Nothing runs where a configuration is not what it was when the sweep began: the case would bear another's results.
  void start() {
    begin_ = Clock::now();
    if (is_as_read())
      process_.emplace(arguments(), file(".stderr"));
    else
      write_file_atomically(file(".stderr"), fmt::format("lacuna: {} changed after the sweep had begun; the same "
                                                         "command runs the case as it is now\n",
                                                         fmt::join(case_.configurations, ", or ")));
  }

  /// The exit code once it has ended.
  std::optional<ExitCode> poll() { return process_ ? process_->poll() : wrong_input; }
  void stop(int signal) const {
    if (process_) process_->signal(signal);
  }

  /// Writes down what became of it.
  ordered_json record(int code) const {
    const std::chrono::duration<double> seconds = Clock::now() - begin_;
    ordered_json record{{"id", case_.id}, {"command", sweep_.command}};
    record["config"] = configurations();
    record["arguments"] = sweep_.arguments;
    record["overrides"] = ordered_json::object();
    for (const SweepOverride& setting : case_.settings) record["overrides"][setting.key] = value_of(setting);
    const std::string left = read_all(file(".result")), warnings = said();
    const std::optional<std::string> failure = failure_of(code, left, warnings);
    record["status"] = failure ? "failed" : "done";
    record["exit_code"] = code;
    record["seconds"] = seconds.count();
    if (trains()) record["run"] = run_folder().string();
    if (failure) {
      record["error"] = *failure;
    } else {
      record["result"] = ordered_json::parse(left);
      if (!warnings.empty()) record["warnings"] = warnings;
    }
    write_file_atomically(file(".json"), record.dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n");
    forget();
    return record;
  }

  /// Removes the files that only a running case needs.
  void forget() const {
    std::error_code ignored;
    for (const char* const ending : {".stderr", ".result"}) fs::remove(file(ending), ignored);
  }

 private:
  fs::path file(std::string_view ending) const { return sweep_.folder / "cases" / (case_.id + std::string(ending)); }
  fs::path run_folder() const { return sweep_.folder / "runs" / case_.id; }
  bool trains() const { return sweep_.command == "train"; }

  /// A text, or a list of several.
  ordered_json configurations() const {
    if (case_.configurations.size() == 1) return case_.configurations.front();
    return case_.configurations;
  }

  bool is_as_read() const {
    try {
      return id_of(sweep_, case_) == case_.id;
    } catch (const Error&) {  // a file is gone
      return false;
    }
  }

  std::vector<std::string> arguments() const {
    std::vector<std::string> all{sweep_.command, "--json", file(".result").string()};
    for (const std::string& configuration : case_.configurations) all.insert(all.end(), {"-c", configuration});
    all.insert(all.end(), sweep_.arguments.begin(), sweep_.arguments.end());
    std::ranges::move(assignments(), std::back_inserter(all));
    if (trains()) {
      // What an interrupted call left is gone on with, or replaced where it came to no checkpoint.
      if (fs::is_symlink(run_folder() / "last"))
        all.insert(all.end(), {"--resume", run_folder().string()});
      else
        all.insert(all.end(), {"--overwrite", "output.dir=" + to_yaml(std::string_view(run_folder().string()))});
    }
    return all;
  }

  /// The overrides, as a command line has them.
  std::vector<std::string> assignments() const {
    std::vector<std::string> all;
    for (const SweepOverride& override : case_.overrides) all.push_back(override.key + "=" + override.value);
    return all;
  }

  /// The last lines of its standard error.
  std::string said() const {
    constexpr int lines = 12;
    return last_lines(read_all(file(".stderr")), lines);
  }

  const Sweep& sweep_;
  const SweepCase& case_;
  std::optional<ChildProcess> process_;
  Clock::time_point begin_;
};

class SweepCommand {
 public:
  explicit SweepCommand(CLI::App& app) {
    app.add_option("-c,--config", file_, "sweep file: a command, and the cases that it is run on")
        ->type_name("SWEEP")
        ->required();
    app.add_option("overrides", overrides_, "values for all cases, as data.path=/data, or output.dir of the sweep")
        ->type_name("key=value");
    app.add_option("--jobs", jobs_, "cases that run at the same time; timed ones slow each other down")
        ->check(CLI::Range(1, 1024));
    report_.declare(app);
  }

  ExitCode operator()() {
    const Sweep sweep = read_sweep(file_, overrides_);
    std::set<fs::path> files;
    for (const SweepCase& one : sweep.cases) files.insert(one.configurations.begin(), one.configurations.end());
    names_ = shortest_names(files);
    std::error_code failed;
    fs::create_directories(sweep.folder / "cases", failed);
    if (failed) reject("cannot create {}: {}", (sweep.folder / "cases").string(), failed.message());
    // Two sweeps would start the same cases, and write down as failures what the other's runs refuse.
    const RunLock lock(sweep.folder, "sweeps into it");
    const InterruptGuard guard;
    const std::vector<ordered_json> records = run(sweep);
    const std::vector<Result> results = write_results(sweep, records);
    if (const int signal = InterruptGuard::signal(); signal != 0 && records.size() < sweep.cases.size()) {
      print_error(fmt::format("lacuna: stopped by a signal with {} of {} cases finished; the same command goes on\n",
                              records.size(), sweep.cases.size()));
      return 128 + signal;
    }
    return std::ranges::any_of(results, &Result::failed) ? 1 : 0;
  }

 private:
  struct Numbered {
    std::size_t index;
    CaseRun run;
  };

  /// A record for each case that is finished, in the order of the sweep.
  std::vector<ordered_json> run(const Sweep& sweep) const {
    std::vector<ordered_json> records(sweep.cases.size());
    std::list<Numbered> waiting, running;
    for (std::size_t i = 0; i < sweep.cases.size(); ++i) {
      waiting.push_back({i, CaseRun(sweep, sweep.cases[i])});
      if (std::optional<ordered_json> earlier = waiting.back().run.finished()) {
        records[i] = std::move(*earlier);
        waiting.pop_back();
      }
    }
    say("{}: {} cases of `lacuna {}`, {} of them finished already\n", file_, records.size(), sweep.command,
        records.size() - waiting.size());
    warn_of_problems(waiting, records.size());
    try {
      run(waiting, running, records);
    } catch (...) {  // a record could not be written, as on a full disk
      let_save(running);
      throw;
    }
    std::erase_if(records, [](const ordered_json& record) { return record.is_null(); });
    return records;
  }

  void run(std::list<Numbered>& waiting, std::list<Numbered>& running, std::vector<ordered_json>& records) const {
    bool stopping = false;
    while (!running.empty() || (!waiting.empty() && !stopping)) {
      if (const int signal = InterruptGuard::signal(); signal != 0 && !std::exchange(stopping, true))
        for (const Numbered& one : running) one.run.stop(signal);
      while (!stopping && !waiting.empty() && running.size() < static_cast<std::size_t>(jobs_)) {
        running.splice(running.end(), waiting, waiting.begin());
        running.back().run.start();
        say("{} started {}\n", number_of(running.back(), records), words_of(running.back().run.what()));
      }
      const std::size_t before = running.size();
      std::erase_if(running, [&](Numbered& one) {
        const std::optional<int> code = one.run.poll();
        if (!code) return false;
        if (stopping && *code != 0) {
          one.run.forget();
        } else {
          records[one.index] = one.run.record(*code);
          tell(number_of(one, records), one.run.what(), records[one.index]);
        }
        return true;
      });
      if (running.size() == before) std::this_thread::sleep_for(polling_interval);
    }
  }

  /// Ends them as a signal would: another call goes on where they stood.
  static void let_save(std::list<Numbered>& running) {
    for (const Numbered& one : running) one.run.stop(SIGTERM);
    for (Numbered& one : running)
      while (!one.run.poll()) std::this_thread::sleep_for(polling_interval);
  }

  /// A case whose configuration is wrong will fail when its turn comes, in hours perhaps.
  void warn_of_problems(const std::list<Numbered>& waiting, std::size_t all) const {
    for (const Numbered& one : waiting)
      if (const std::string problem = one.run.problem(); !problem.empty())
        print_error(fmt::format("lacuna: warning: [{}/{}] will fail: {}\n{}\n", one.index + 1, all,
                                words_of(one.run.what()), problem));
  }

  std::string words_of(const SweepCase& one) const {
    std::string words;
    for (const std::string& file : one.configurations)
      words += fmt::format("{}{}", words.empty() ? "" : " + ", fs::path(names_.at(file)).replace_extension().string());
    for (const SweepOverride& override : one.overrides) words += fmt::format(" {}={}", override.key, override.value);
    return words;
  }

  /// As `[2/12]`: a case's place in the sweep, which it keeps from its beginning to its end.
  static std::string number_of(const Numbered& one, const std::vector<ordered_json>& records) {
    return fmt::format("[{}/{}]", one.index + 1, records.size());
  }

  void tell(const std::string& number, const SweepCase& one, const ordered_json& record) const {
    const double seconds = record["seconds"];
    if (record["status"] == "done") {
      say("{} done in {:.1f} s\n", number, seconds);
      if (record.contains("warnings")) say("{}\n", record["warnings"].get<std::string>());
      return;
    }
    say("{} FAILED after {:.1f} s: {}\n{}\n", number, seconds, words_of(one), record["error"].get<std::string>());
  }

  std::vector<Result> write_results(const Sweep& sweep, const std::vector<ordered_json>& records) const {
    std::vector<Result> results = to_results(records, (sweep.folder / "cases").string());
    set_labels(results);
    ordered_json all{{"command", sweep.command}, {"cases", records}};
    const std::string name = fs::path(file_).stem().string();
    const auto failures = std::ranges::count_if(results, &Result::failed);
    std::string subtitle = fmt::format("lacuna {} · ", sweep.command);
    if (results.size() < sweep.cases.size())
      subtitle += fmt::format("stopped with {} of {} cases finished", results.size(), sweep.cases.size());
    else
      subtitle += fmt::format("{} cases", results.size());
    if (failures > 0) subtitle += fmt::format(", {} of them failed", failures);
    write_file_atomically(sweep.folder / "sweep.json",
                          all.dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n");
    write_file_atomically(sweep.folder / "sweep.csv", to_csv(results));
    write_file_atomically(sweep.folder / "sweep.html", to_html({name, subtitle, "sweep.csv"}, results));
    for (const Result& result : results)
      if (!result.run.empty() && !result.failed && !fs::exists(fs::path(result.run) / "metrics.jsonl"))
        print_error(fmt::format("lacuna: warning: {} holds no metrics.jsonl: the page has no curves of {}\n",
                                result.run.string(), result.label));
    const std::string failed =
        failures > 0 ? fmt::format("{} of {} cases failed; the page and sweep.csv say why\n", failures, results.size())
                     : std::string();
    report_.write(fmt::format("\n{}\n{}{} holds sweep.html, sweep.csv, sweep.json and cases/\n",
                              to_table(results, "case"), failed, sweep.folder.string()),
                  all);
    return results;
  }

  template <class... Args>
  void say(fmt::format_string<Args...> format, Args&&... args) const {
    if (!report_.for_people()) return;
    // Not fmt::print, which throws if nobody reads: the results are in files.
    std::fputs(fmt::format(format, std::forward<Args>(args)...).c_str(), stdout);
    std::fflush(stdout);
  }

  std::string file_;
  std::vector<std::string> overrides_;
  int jobs_ = 1;
  std::map<fs::path, std::string> names_;  // of the configurations
  Report report_;
};

const RegisterCommand sweep(55, "sweep", "Run a command over a grid of configurations; resumable",
                            declare<SweepCommand>);

}  // namespace
}  // namespace lacuna::apps
