// Pages as a browser builds them, and the runs that they show.
#pragma once

#include "tests/apps/commands/command_run.h"

#include <doctest/doctest.h>
#include <fmt/core.h>

#include <cstdlib>
#include <string>
#include <sstream>

namespace lacuna::test {

inline constexpr std::string_view plain_vit =
    "model: {name: vit, image_size: 8, patch_size: 4, embed_dim: 8, depth: 2, num_heads: 2}\n"
    "data: {name: shapes, train_size: 35, val_size: 10}\n"
    "train: {epochs: 2, batch_size: 8, threads: 1}\n";

inline std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

/// The page as a browser builds it. Without a browser the test fails, unless LACUNA_WITHOUT_BROWSER=1 says that this is
/// known: then the page is empty, and a message says so.
inline std::string browse(const TemporaryFolder& folder, const std::string& page,
                          const std::string& size = "1280,900") {
  if (!std::filesystem::exists("/usr/bin/chromium")) {
    const char* const known = std::getenv("LACUNA_WITHOUT_BROWSER");
    if (known == nullptr || known != std::string_view("1"))
      FAIL(
          "the page cannot be looked at: chromium is not installed (tools/install-packages --tests installs it; "
          "LACUNA_WITHOUT_BROWSER=1 leaves out what needs it)");
    MESSAGE("left out: chromium is not installed, and LACUNA_WITHOUT_BROWSER=1");
    return {};
  }
  const CommandResult result =
      run_program(folder, "/usr/bin/chromium",
                  {"--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
                   fmt::format("--user-data-dir={}/browser", folder.path()), "--virtual-time-budget=2000", "--dump-dom", "--enable-logging=stderr",
                   "--window-size=" + size, "file://" + (folder / page).string()});
  INFO(result.error);
  REQUIRE(result.code == 0);
  REQUIRE(result.out.find("</html>") != std::string::npos);
  CHECK(result.error.find("CONSOLE") == std::string::npos);  // an error of a script
  return result.out;
}

/// Runs `script`, the body of a function, on the page, and returns its value; null without a browser.
inline nlohmann::json evaluate(const TemporaryFolder& folder, const std::string& page, const std::string& script,
                               const std::string& size = "1280,900") {
  const std::string changed = page.substr(0, page.rfind('.')) + "-after.html", mark = "<pre id=\"told\">";
  // In hexadecimal digits no text needs an escape.
  write_file(folder / changed,
             read_file(folder / page) +
                 "<script>{ const told = document.createElement('pre'); told.id = 'told'; told.textContent = [...new "
                 "TextEncoder().encode(JSON.stringify((() => {" +
                 script +
                 "})()))].map(b => b.toString(16).padStart(2, '0')).join(''); document.body.append(told); }</script>");
  const std::string dom = browse(folder, changed, size);
  if (dom.empty()) return nullptr;
  const std::size_t at = dom.find(mark);
  REQUIRE(at != std::string::npos);
  std::string text;
  for (std::size_t i = at + mark.size(); dom[i] != '<'; i += 2)
    text += static_cast<char>(std::stoi(dom.substr(i, 2), nullptr, 16));
  return nlohmann::json::parse(text);
}

/// A script's first lines: `chart(ID)` is the first chart in an element, `points(ID)` its datasets, each as [x, y, ...].
inline const std::string charts =
    "const chart = id => Chart.getChart(document.querySelector('#' + id + ' canvas'));"
    "const points = id => chart(id).data.datasets.filter(d => !d.silent).map(d => d.data.flatMap(p => [p.x, p.y]));";

/// The page from the section `id` up to the next one.
inline std::string section_of(const std::string& dom, const std::string& id) {
  const std::size_t begin = dom.find("<section id=\"" + id + "\"");
  REQUIRE(begin != std::string::npos);
  return dom.substr(begin, dom.find("</section>", begin) - begin);
}

}  // namespace lacuna::test
