#include "apps/report/page.h"

#include "apps/page_template.h"
#include "apps/report/curves.h"
#include "apps/report/json_file.h"
#include "core/error.h"

#include <fmt/core.h>

#include <fstream>
#include <iterator>
#include <utility>

namespace lacuna::apps {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

/// JSON for a <script> element: no text in it can end the element or begin a comment.
std::string for_script(const ordered_json& json) {
  std::string text;
  for (const char c : json.dump(-1, ' ', false, ordered_json::error_handler_t::replace)) {
    if (c == '<' || c == '>' || c == '&')
      text += fmt::format("\\u{:04x}", static_cast<int>(c));
    else
      text += c;
  }
  return text;
}

ordered_json to_object(const NamedCells& fields) {
  ordered_json object = ordered_json::object();
  for (const auto& [key, value] : fields) object[key] = value;
  return object;
}

void add_run(ordered_json& one, const fs::path& run) {
  one["curves"] = curves_of(run);
  one["tensors"] = tensor_curves_of(run);
  if (auto record = read_or_warn(run / "record.json", "the page is without it")) one["record"] = std::move(*record);
  std::error_code ignored;
  if (fs::exists(run / "classes.json", ignored))  // of `lacuna eval`
    if (auto classes = read_or_warn(run / "classes.json", "the page is without it"))
      one["classes"] = std::move(*classes);
  if (fs::exists(run / "timeline.json", ignored))
    if (auto timeline = read_or_warn(run / "timeline.json", "the page is without it"))
      one["timeline"] = std::move(*timeline);
  std::ifstream configuration(run / "config.yaml");
  one["configuration"] = std::string(std::istreambuf_iterator<char>(configuration), {});
}

std::string to_json(const PageTitle& title, const std::vector<Result>& results, const Table& table) {
  ordered_json data{{"title", title.title},
                    {"subtitle", title.subtitle},
                    {"csv", title.csv},
                    {"table", {{"rows", table.rows}, {"texts", table.texts}, {"best", nullptr}}}};
  if (table.best) data["table"].update({{"best", *table.best}, {"best_text", table.best_text}});
  for (const Group& group : table.groups)
    data["groups"].push_back({{"label", group.label}, {"members", group.members}});
  data["cases"] = ordered_json::array();
  for (const Result& result : results) {
    ordered_json one{{"id", result.id},
                     {"label", result.label},
                     {"status", name_of(result.state)},
                     {"settings", to_object(result.settings)},
                     {"figures", to_object(flat_figures(result.figures))}};
    for (const char* const key : {"saved_by_path", "timeline"})
      if (result.figures.is_object() && result.figures.contains(key)) one[key] = result.figures[key];
    if (!result.error.empty()) one["error"] = result.error;
    if (!result.warnings.empty()) one["warnings"] = result.warnings;
    if (!result.run.empty()) add_run(one, result.run);
    data["cases"].push_back(std::move(one));
  }
  return for_script(data);
}

void put(std::string& page, std::string_view place, std::string_view text) {
  const std::size_t at = page.find(place);
  expect(at != std::string::npos, "apps/report/page.html has no {}", place);
  page.replace(at, place.size(), text);
}

}  // namespace

std::string to_html(const PageTitle& title, const std::vector<Result>& results, const Table& table) {
  std::string page(page_template);
  put(page, "@LACUNA_DATA@", to_json(title, results, table));
  put(page, "@LACUNA_TIMELINE@", timeline_js);
  put(page, "@LACUNA_CHARTS@", chart_js);
  return page;
}

}  // namespace lacuna::apps
