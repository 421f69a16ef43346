// Pages as a browser builds them, and the runs that they show.
#pragma once

#include "tests/apps/commands/command_run.h"

#include <doctest/doctest.h>
#include <fmt/core.h>

#include <cstdlib>
#include <map>
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

using Attributes = std::map<std::string, std::string>;

/// The attributes of each element of `tag` whose class begins with `name`, in the order of the page.
inline std::vector<Attributes> elements(const std::string& dom, const std::string& tag, const std::string& name) {
  std::vector<Attributes> found;
  for (std::size_t at = 0; (at = dom.find("<" + tag, at)) != std::string::npos;) {
    at += 1 + tag.size();
    Attributes attributes;
    while (at < dom.size() && dom[at] == ' ') {
      const std::size_t equals = dom.find("=\"", at), end = dom.find('"', equals + 2);
      attributes[dom.substr(at + 1, equals - at - 1)] = dom.substr(equals + 2, end - equals - 2);
      at = end + 1;
    }
    if (attributes["class"].starts_with(name)) found.push_back(std::move(attributes));
  }
  return found;
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
                   fmt::format("--user-data-dir={}/browser", folder.path()), "--virtual-time-budget=2000", "--dump-dom",
                   "--window-size=" + size, "file://" + (folder / page).string()});
  INFO(result.error);
  REQUIRE(result.code == 0);
  REQUIRE(result.out.find("</html>") != std::string::npos);
  return result.out;
}

/// The same after a script has run on it.
inline std::string browse_after(const TemporaryFolder& folder, const std::string& page, const std::string& script) {
  const std::string changed = page.substr(0, page.rfind('.')) + "-after.html";
  write_file(folder / changed, read_file(folder / page) + "<script>" + script + "</script>");
  return browse(folder, changed);
}

/// The page from the section `id` up to the next one.
inline std::string section_of(const std::string& dom, const std::string& id) {
  const std::size_t begin = dom.find("<section id=\"" + id + "\"");
  REQUIRE(begin != std::string::npos);
  return dom.substr(begin, dom.find("</section>", begin) - begin);
}

}  // namespace lacuna::test
