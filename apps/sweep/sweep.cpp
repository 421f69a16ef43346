// lacuna sweep: a command over many configurations, one process a case.
#include "apps/command.h"
#include "apps/output/host.h"
#include "apps/output/output.h"
#include "apps/report/page.h"
#include "apps/sweep/case_run.h"
#include "apps/train/interrupt.h"
#include "apps/train/progress.h"
#include "apps/train/run_lock.h"
#include "core/error.h"
#include "core/file.h"

#include <fmt/ranges.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <list>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>
#include <utility>

namespace lacuna::apps {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

constexpr auto polling_interval = std::chrono::milliseconds(5);

bool is_failed(const Result& result) { return result.state == Result::State::failed; }

class SweepCommand {
 public:
  explicit SweepCommand(CLI::App& app) {
    app.add_option("-c,--config", file_, "sweep file: a command, and the cases that it runs on")->type_name("SWEEP");
    app.add_option("words", words_, "the sweep file; values for all cases, as data.path=/data; output.dir of the sweep")
        ->type_name("SWEEP|key=value");
    app.add_option("--jobs", jobs_, "cases that run at the same time; timed ones slow each other down")
        ->check(CLI::Range(1, 1024));
    report_.declare(app);
  }

  ExitCode operator()() {
    for (const std::string& word : words_) {
      if (word.find('=') != std::string::npos && !word.ends_with(".yaml"))
        overrides_.push_back(word);
      else if (file_.empty())
        file_ = word;
      else
        reject("{}: expected key=value; the sweep file is {}", word, file_);
    }
    if (file_.empty()) reject("expected a sweep file, as lacuna sweep configs/sweeps/memory_policies.yaml");
    const Sweep sweep = read_sweep(file_, overrides_);
    std::error_code failed;
    fs::create_directories(sweep.folder / "cases", failed);
    if (failed) reject("cannot create {}: {}", (sweep.folder / "cases").string(), failed.message());
    // Two sweeps would start the same cases, and record as failures what the other's runs refuse.
    const RunLock lock(sweep.folder, "sweeps into it");
    const InterruptGuard guard;
    if (command_host() != nullptr) command_host()->begin(sweep.folder);
    list_cases(sweep);
    run(sweep);
    write_results(sweep);
    const std::size_t finished = results_.size() - left();
    if (const int signal = InterruptGuard::signal(); signal != 0 && left() > 0) {
      print_error(fmt::format("lacuna: stopped by a signal with {} of {} cases finished; the same command continues\n",
                              finished, results_.size()));
      return 128 + signal;
    }
    return std::ranges::any_of(results_, is_failed) ? 1 : 0;
  }

 private:
  struct Numbered {
    std::size_t index;
    CaseRun run;
  };

  /// All cases as results without figures, named by the settings that differ.
  void list_cases(const Sweep& sweep) {
    std::set<fs::path> files;
    for (const SweepCase& one : sweep.cases) files.insert(one.configurations.begin(), one.configurations.end());
    const auto names = shortest_names(files);
    for (const SweepCase& one : sweep.cases) {
      std::vector<std::string> own;
      for (const std::string& file : one.configurations) own.push_back(names.at(file));
      results_.push_back(CaseRun(sweep, one).result(fmt::format("{}", fmt::join(own, " + "))));
    }
    set_labels(results_);
    records_.resize(results_.size());
  }

  void take(std::size_t index, ordered_json record) {
    read_record(record, "a case", results_[index]);
    records_[index] = std::move(record);
  }

  std::size_t left() const {
    return static_cast<std::size_t>(
        std::ranges::count_if(records_, [](const ordered_json& record) { return record.is_null(); }));
  }

  void run(const Sweep& sweep) {
    std::list<Numbered> waiting, running;
    for (std::size_t i = 0; i < sweep.cases.size(); ++i) {
      waiting.push_back({i, CaseRun(sweep, sweep.cases[i])});
      if (std::optional<ordered_json> earlier = waiting.back().run.finished()) {
        take(i, std::move(*earlier));
        waiting.pop_back();
      }
    }
    say("{}: {} cases of `lacuna {}`, {} of them finished already\n", file_, results_.size(), sweep.command,
        results_.size() - waiting.size());
    if (sweep.repeated_trials > 0)
      print_error(fmt::format("lacuna: note: {} trials of `random` draw the values of earlier ones and are left out\n",
                              sweep.repeated_trials));
    // A wrong configuration would fail when its turn comes, in hours perhaps.
    const auto opened = std::make_shared<OpenedFiles>();
    for (const Numbered& one : waiting)
      if (const std::string problem = one.run.problem(opened); !problem.empty())
        print_error(fmt::format("lacuna: warning: {} will fail: {}\n", name_of(one), problem));
    try {
      run(waiting, running);
    } catch (...) {  // a record could not be written, as on a full disk
      let_save(running);
      throw;
    }
  }

  void run(std::list<Numbered>& waiting, std::list<Numbered>& running) {
    bool stopping = false;
    while (!running.empty() || (!waiting.empty() && !stopping)) {
      if (const int signal = InterruptGuard::signal(); signal != 0 && !std::exchange(stopping, true))
        for (const Numbered& one : running) one.run.stop(signal);
      while (!stopping && !waiting.empty() && running.size() < static_cast<std::size_t>(jobs_)) {
        running.splice(running.end(), waiting, waiting.begin());
        running.back().run.start();
        say("{} started\n", name_of(running.back()));
      }
      const std::size_t before = running.size();
      std::erase_if(running, [&](Numbered& one) {
        const std::optional<int> code = one.run.poll();
        if (!code) return false;
        if (stopping && *code != 0) {
          one.run.forget();
        } else {
          take(one.index, one.run.record(*code));
          tell(one);
        }
        return true;
      });
      if (running.size() == before) std::this_thread::sleep_for(polling_interval);
    }
  }

  /// Ends them as a signal would: another call continues them.
  static void let_save(std::list<Numbered>& running) {
    for (const Numbered& one : running) one.run.stop(SIGTERM);
    for (Numbered& one : running)
      while (!one.run.poll()) std::this_thread::sleep_for(polling_interval);
  }

  /// As `[2/12] lr 0.1 · seed 3`.
  std::string name_of(const Numbered& one) const {
    return fmt::format("[{}/{}] {}", one.index + 1, results_.size(), results_[one.index].label);
  }

  /// Time that the cases left would take if each took as long as those that are done, in words; empty: not known.
  std::string remaining() const {
    double seconds = 0;
    std::size_t count = 0;
    for (const ordered_json& record : records_) {
      if (record.is_null() || record["status"] != "done") continue;
      seconds += record["seconds"].get<double>();
      ++count;
    }
    if (count == 0 || left() == 0) return {};
    return fmt::format("{} left for {} cases",
                       clock_time(seconds / static_cast<double>(count) * static_cast<double>(left()) / jobs_), left());
  }

  void tell(const Numbered& one) const {
    const Result& result = results_[one.index];
    const double seconds = records_[one.index]["seconds"];
    const std::string rest = remaining();
    say("{} {} {:.1f} s{}{}\n", name_of(one), is_failed(result) ? "FAILED after" : "done in", seconds,
        rest.empty() ? "" : "; about ", rest);
    const std::string& said = is_failed(result) ? result.error : result.warnings;
    if (!said.empty()) say("{}\n", said);
  }

  void write_results(const Sweep& sweep) const {
    const Table table = table_of(results_, "");
    ordered_json all{{"command", sweep.command}, {"cases", ordered_json::array()}};
    for (const ordered_json& record : records_)
      if (!record.is_null()) all["cases"].push_back(record);
    if (table.best) {
      all["best"] = {{"figure", table.goal}, {"text", table.best_text}, {"cases", ordered_json::array()}};
      for (const std::size_t member : table.groups[*table.best].members)
        all["best"]["cases"].push_back(results_[member].id);
    }
    const auto failures = std::ranges::count_if(results_, is_failed);
    std::string subtitle = fmt::format("lacuna {} · ", sweep.command);
    if (left() > 0)
      subtitle += fmt::format("stopped with {} of {} cases finished{}{}", results_.size() - left(), results_.size(),
                              remaining().empty() ? "" : ", about ", remaining());
    else
      subtitle += fmt::format("{} case{}", results_.size(), results_.size() == 1 ? "" : "s");
    if (failures > 0) subtitle += fmt::format(", {} of them failed", failures);
    write_file_atomically(sweep.folder / "sweep.json",
                          all.dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n");
    write_file_atomically(sweep.folder / "sweep.csv", to_csv(results_));
    write_file_atomically(sweep.folder / "sweep.html",
                          to_html({fs::path(file_).stem().string(), subtitle, "sweep.csv"}, results_, table));
    for (const Result& result : results_)
      if (!result.run.empty() && !is_failed(result) && !fs::exists(result.run / "metrics.jsonl"))
        print_error(fmt::format("lacuna: warning: {} holds no metrics.jsonl: the page has no curves of {}\n",
                                result.run.string(), result.label));
    const std::string failed =
        failures > 0 ? fmt::format("{} of {} cases failed; the page and sweep.csv say why\n", failures, results_.size())
                     : std::string();
    report_.write(fmt::format("\n{}\n{}{} holds sweep.html, sweep.csv, sweep.json and cases/\n", to_text(table), failed,
                              sweep.folder.string()),
                  all);
  }

  template <class... Args>
  void say(fmt::format_string<Args...> format, Args&&... args) const {
    const std::string text = fmt::format(format, std::forward<Args>(args)...);
    if (command_host() != nullptr) command_host()->print(text);
    if (!report_.for_people()) return;
    // Not fmt::print, which throws if nobody reads: the results are in files.
    std::fputs(text.c_str(), stdout);
    std::fflush(stdout);
  }

  std::string file_;
  std::vector<std::string> words_, overrides_;
  int jobs_ = 1;
  std::vector<Result> results_;        // of all cases, in the order of the sweep
  std::vector<ordered_json> records_;  // null: not finished
  Report report_;
};

const RegisterCommand sweep(55, "sweep", "run a command over many configurations; resumable", declare<SweepCommand>);

}  // namespace
}  // namespace lacuna::apps
