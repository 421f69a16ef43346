// lacuna report: training runs as one HTML page.
#include "apps/command.h"
#include "apps/config/resolve.h"
#include "apps/config/yaml.h"
#include "apps/output/output.h"
#include "apps/report/json_file.h"
#include "apps/report/page.h"
#include "apps/report/sample_sheet.h"
#include "apps/train/run_folder.h"
#include "core/error.h"
#include "core/file.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

namespace lacuna::apps {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

/// The state of a run without a summary, from its metrics: it goes on, or was killed.
ordered_json figures_so_far(const fs::path& run) {
  ordered_json figures = ordered_json::object();
  read_metrics(run, [&](const ordered_json& noted) {
    figures["steps"] = noted["step"];
    if (noted.contains("peak")) figures["memory"] = {{"peak", noted["peak"]}};
    if (!noted.contains("val_loss")) return;
    if (noted.contains("epoch")) figures["epochs"] = noted["epoch"];
    for (const auto& [key, value] : noted.items())
      if (key == "train_loss" || key.starts_with("val_")) figures[key] = value;
  });
  return figures;
}

/// Leaves out what a budget that is not given would count.
void leave_wishes(NamedCells& settings) {
  if (std::ranges::find(settings, NamedCells::value_type{"memory.budget", ""}) != settings.end())
    std::erase_if(settings, [](const auto& setting) { return setting.first == "memory.budget_of"; });
}

/// The configuration of a run, key by key, but for the folder that it is.
NamedCells settings_of(const fs::path& configuration) {
  Problems problems;
  const Tree root = parse_yaml(read_text(configuration), {configuration.string(), 1, 1}, problems);
  problems.refuse_if_any();
  NamedCells settings;
  for (const TreeEntry& section : root.entries)
    for (const TreeEntry& entry : section.value.entries) {
      const bool scalar = entry.value.kind == Tree::Kind::scalar;
      if (section.key == "output" && entry.key == "dir") continue;
      ordered_json value = scalar ? entry.value.text : to_yaml(entry.value);
      if (number_in(entry.value)) value = ordered_json::parse(entry.value.text, nullptr, false);
      if (value.is_discarded()) value = entry.value.text;  // a number as YAML writes it, and JSON does not
      settings.emplace_back(section.key + "." + entry.key, std::move(value));
    }
  leave_wishes(settings);
  return settings;
}

Result read_run(const std::string& path) {
  const RunFolder folder = RunFolder::open(path);
  Result result;
  result.run = folder.path();
  result.id = folder.path().lexically_normal().string();
  result.settings = settings_of(folder.configuration());
  const std::optional<ordered_json> summary = read_or_warn(folder.summary(), "what the run's steps say stands for it");
  if (!summary || summary->contains("stopped")) result.state = Result::State::unfinished;
  result.figures = summary ? *summary : figures_so_far(folder.path());
  return result;
}

/// The last part of its folder, with as many before it as tell it from the others.
std::string short_name(const Result& result, const std::vector<Result>& results) {
  const auto folder = [](const Result& run) { return (run.run / "").lexically_normal().parent_path(); };
  std::set<fs::path> folders;
  for (const Result& run : results) folders.insert(folder(run));
  const std::string name = shortest_names(folders).at(folder(result));
  return name.empty() ? result.id : name;
}

/// A run beside itself, perhaps under another name, would be told from itself by nothing.
void refuse_twice(const std::vector<Result>& results) {
  std::map<fs::path, std::string> seen;
  for (const Result& result : results) {
    const auto [first, is_new] = seen.emplace(fs::canonical(result.run), result.id);
    if (is_new) continue;
    if (first->second == result.id) reject("the run {} is given twice; give each run once", result.id);
    reject("{} and {} are one run; give it once", first->second, result.id);
  }
}

class ReportRuns {
 public:
  explicit ReportRuns(CLI::App& app) {
    app.add_option("runs", runs_, "run folders, finished or not")->type_name("RUN");
    app.add_option(
           "--data", data_,
           "a configuration or run, whose training samples are shown in the place of runs, images augmented and "
           "texts as tokens; key=value besides")
        ->type_name("CONFIG|RUN");
    app.add_option("-o,--output", output_,
                   "the page; report.html in the run's folder, or here for several runs; samples.html of --data")
        ->type_name("FILE");
    report_.declare(app);
  }

  ExitCode operator()() const {
    if (output_ == "-") reject("-o -: expected a file; a page is not written to standard output");
    if (!data_.empty()) return show_samples();
    if (runs_.empty()) reject("expected run folders, or --data CONFIG|RUN");
    std::optional<AtomicFile> file;
    if (!output_.empty()) file.emplace(output_);  // refused before all the runs are read
    std::vector<Result> results;
    ordered_json json = ordered_json::array();
    for (const std::string& run : runs_) {
      results.push_back(read_run(run));
      json.push_back({{"run", results.back().id}, {"result", results.back().figures}});
    }
    refuse_twice(results);
    keep_varying_settings(results);
    set_labels(results);
    for (Result& result : results) {
      const std::string name = results.size() == 1 ? result.id : short_name(result, results);
      result.label = result.label.empty() ? name : fmt::format("{}: {}", name, result.label);
      if (result.state == Result::State::unfinished) result.label += " · unfinished";
    }
    const fs::path page = !output_.empty()      ? fs::path(output_)
                          : results.size() == 1 ? results.front().run / "report.html"
                                                : fs::path("report.html");
    const std::string title = results.size() == 1 ? results.front().id : fmt::format("{} runs", results.size());
    if (!file) file.emplace(page);
    const Table table = table_of(results, "run");
    file->write(to_html({.title = title, .subtitle = "lacuna train", .csv = {}}, results, table));
    file->commit();
    report_.write(fmt::format("{}\n{}\n", to_text(table), page.string()), json);
    return 0;
  }

 private:
  ExitCode show_samples() const {
    const std::string page = output_.empty() ? "samples.html" : output_;
    AtomicFile file(page);
    const fs::path file_or_run(data_);
    file.write(sample_sheet(
        resolve(read_configuration(fs::is_directory(file_or_run) ? file_or_run / "config.yaml" : file_or_run, runs_))));
    file.commit();
    report_.write(page + "\n", {{"page", page}});
    return 0;
  }

  std::vector<std::string> runs_;
  std::string data_, output_;
  Report report_;
};

const RegisterCommand report(57, "report", "show training runs as one HTML page", declare<ReportRuns>);

}  // namespace
}  // namespace lacuna::apps
