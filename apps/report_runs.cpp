// lacuna report: training runs as one HTML page.
#include "apps/command.h"
#include "apps/page.h"
#include "apps/report.h"
#include "apps/run_folder.h"
#include "core/error.h"
#include "core/file.h"

#include <CLI/CLI.hpp>

#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

namespace lacuna::apps {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

/// A run that still goes on has no summary yet, but it has curves.
Result read_run(const std::string& path) {
  const RunFolder folder = RunFolder::open(path);
  Result result;
  result.run = folder.path();
  result.id = folder.path().lexically_normal().string();
  result.label = result.id;
  result.settings.emplace_back("run", result.id);
  if (!fs::exists(folder.summary())) return result;
  std::ifstream stream(folder.summary());
  result.figures = ordered_json::parse(stream, nullptr, false);
  if (!result.figures.is_object()) reject("{} is no summary of a run", folder.summary().string());
  return result;
}

class ReportRuns {
 public:
  explicit ReportRuns(CLI::App& app) {
    app.add_option("runs", runs_, "run folders, finished or not")->type_name("RUN")->required();
    app.add_option("-o,--output", output_, "the page; report.html in the run's folder, or here for several runs")
        ->type_name("FILE");
    report_.declare(app);
  }

  ExitCode operator()() const {
    std::vector<Result> results;
    ordered_json json = ordered_json::array();
    for (const std::string& run : runs_) {
      results.push_back(read_run(run));
      json.push_back({{"run", results.back().id}, {"result", results.back().figures}});
    }
    const fs::path page = !output_.empty()      ? fs::path(output_)
                          : results.size() == 1 ? results.front().run / "report.html"
                                                : fs::path("report.html");
    const std::string title = results.size() == 1 ? results.front().id : fmt::format("{} runs", results.size());
    write_file_atomically(page, to_html({title, "lacuna train"}, results));
    report_.write(fmt::format("{}\n{}\n", to_table(results), page.string()), json);
    return 0;
  }

 private:
  std::vector<std::string> runs_;
  std::string output_;
  Report report_;
};

const RegisterCommand report(57, "report", "Show training runs as one HTML page", declare<ReportRuns>);

}  // namespace
}  // namespace lacuna::apps
