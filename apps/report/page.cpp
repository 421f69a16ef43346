#include "apps/report/page.h"

#include "apps/page_template.h"
#include "apps/train/run_folder.h"
#include "core/error.h"

#include <fmt/core.h>

#include <algorithm>

namespace lacuna::apps {
namespace {

using nlohmann::ordered_json;

/// What a curve shows at most: more points than a chart has columns of pixels only make the file larger.
constexpr std::size_t most_points = 400;

struct Curve {
  std::vector<double> steps, losses, accuracies;

  void add(double step, double loss, double accuracy) {
    steps.push_back(step);
    losses.push_back(loss);
    accuracies.push_back(accuracy);
  }

  /// Means over runs of neighbours.
  Curve thinned() const {
    const std::size_t run = (steps.size() + most_points - 1) / most_points;
    if (run <= 1) return *this;
    Curve thin;
    for (std::size_t begin = 0; begin < steps.size(); begin += run) {
      const std::size_t end = std::min(begin + run, steps.size());
      const auto mean = [&](const std::vector<double>& values) {
        double sum = 0;
        for (std::size_t i = begin; i < end; ++i) sum += values[i];
        return sum / static_cast<double>(end - begin);
      };
      thin.add(steps[end - 1], mean(losses), mean(accuracies));
    }
    return thin;
  }

  ordered_json json() const { return {{"step", steps}, {"loss", losses}, {"accuracy", accuracies}}; }
};

ordered_json curves_of(const std::filesystem::path& run) {
  Curve training, validation;
  read_metrics(run, [&](const ordered_json& noted) {
    if (noted.contains("loss") && noted.contains("accuracy"))
      training.add(noted["step"], noted["loss"], noted["accuracy"]);
    if (noted.contains("val_loss") && noted.contains("val_accuracy"))
      validation.add(noted["step"], noted["val_loss"], noted["val_accuracy"]);
  });
  return {{"train", training.thinned().json()}, {"val", validation.thinned().json()}};
}

/// JSON that can stand inside a <script> element: no text in it can end the element or begin a comment.
std::string for_script(const ordered_json& json) {
  const std::string plain = json.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
  std::string text;
  for (const char c : plain) {
    if (c == '<' || c == '>' || c == '&')
      text += fmt::format("\\u{:04x}", static_cast<int>(c));
    else
      text += c;
  }
  return text;
}

ordered_json phrases_of(const Result& result) {
  ordered_json phrases = ordered_json::object();
  for (const auto& [key, value] : result.settings)
    if (std::string phrase = phrase_of(key, value); !phrase.empty()) phrases[key] = std::move(phrase);
  return phrases;
}

ordered_json to_object(const std::vector<std::pair<std::string, ordered_json>>& fields) {
  ordered_json object = ordered_json::object();
  for (const auto& [key, value] : fields) object[key] = value;
  return object;
}

}  // namespace

std::string to_html(const PageTitle& title, const std::vector<Result>& results) {
  ordered_json data{
      {"title", title.title}, {"subtitle", title.subtitle}, {"csv", title.csv}, {"cases", ordered_json::array()}};
  for (const Result& result : results) {
    ordered_json one{{"id", result.id},
                     {"label", result.label},
                     {"status", result.failed ? "failed" : "done"},
                     {"settings", to_object(result.settings)},
                     {"phrases", phrases_of(result)},
                     {"figures", to_object(flat_figures(result.figures))}};
    if (result.figures.is_object() && result.figures.contains("saved_by_path"))
      one["saved_by_path"] = result.figures["saved_by_path"];
    if (result.failed) one["error"] = result.error;
    if (!result.warnings.empty()) one["warnings"] = result.warnings;
    if (!result.run.empty()) one["curves"] = curves_of(result.run);
    data["cases"].push_back(std::move(one));
  }
  constexpr std::string_view place = "@LACUNA_DATA@";
  std::string page(page_template);
  const std::size_t at = page.find(place);
  expect(at != std::string::npos, "apps/page.html has no place for its data ({})", place);
  return page.replace(at, place.size(), for_script(data));
}

}  // namespace lacuna::apps
