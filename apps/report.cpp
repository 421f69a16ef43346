#include "apps/report.h"

#include "core/error.h"
#include "core/file.h"

#include <CLI/CLI.hpp>

#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>

namespace lacuna::apps {
namespace {

void print(const std::string& text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0)
    reject("cannot write to standard output");
}

}  // namespace

void Report::declare(CLI::App& app) {
  app.add_option("--json", file_, "write the result as JSON; -: to standard output, and nothing else there")
      ->type_name("FILE");
}

void Report::write(const std::string& text, const nlohmann::ordered_json& json) const {
  if (for_people()) print(text);
  if (file_.empty()) return;
  const std::string content = json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
  if (!for_people()) return print(content);
  std::error_code ignored;
  if (!std::filesystem::exists(file_, ignored) || std::filesystem::is_regular_file(file_, ignored))
    return write_file_atomically(file_, content);
  std::ofstream stream(file_);  // a pipe or a device cannot be replaced
  if (!(stream << content << std::flush)) reject("cannot write {}", file_);
}

}  // namespace lacuna::apps
