#include "models/tasks/entities.h"

#include "data/text/entity_labels.h"
#include "ops/losses/top_k.h"

#include <algorithm>

namespace lacuna {
namespace {

double quotient(double part, double whole) { return whole > 0 ? part / whole : 0; }
double entity_f1(std::span<const double> sums) { return quotient(2 * sums[0], sums[1] + sums[2]); }
double entity_precision(std::span<const double> sums) { return quotient(sums[0], sums[1]); }
double entity_recall(std::span<const double> sums) { return quotient(sums[0], sums[2]); }

}  // namespace

std::optional<Metric> entity_metric(std::string_view name) {
  const auto metric = [&](double (*value)(std::span<const double>)) {
    return Metric{.name = std::string(name), .sums = 3, .value = value};
  };
  if (name == "f1") return metric(entity_f1);
  if (name == "precision") return metric(entity_precision);
  if (name == "recall") return metric(entity_recall);
  return {};
}

Tensor entity_sums(std::span<const std::string> names, std::span<const std::int64_t> ends, const Tensor& logits,
                   const Tensor& labels) {
  const Tensor sums = Tensor::zeros({3}, DType::f64, Device::cpu),
               predicted = Tensor::empty({logits.rows()}, DType::i64, logits.device());
  find_largest(logits.device(), logits, predicted);
  if (logits.device() == Device::meta) return Tensor::zeros({3}, DType::f64, Device::meta);
  if (std::ssize(names) != logits.shape().back())
    reject("entities: expected names of the {} labels, got {}", logits.shape().back(), names.size());
  const Tensor found = predicted.to(Device::cpu), wanted = labels.to(Device::cpu);
  double* const counts = sums.data<double>();
  std::int64_t begin = 0;
  for (const std::int64_t end : ends) {
    const auto entities = [&](const Tensor& numbers) {
      std::vector<std::string_view> words;
      for (std::int64_t i = begin; i < end; ++i)
        words.emplace_back(names[static_cast<std::size_t>(numbers.data<const std::int64_t>()[i])]);
      return entities_in(words);
    };
    const std::vector<Entity> of_model = entities(found), of_labels = entities(wanted);
    counts[0] += static_cast<double>(std::ranges::count_if(
        of_model, [&](const Entity& one) { return std::ranges::find(of_labels, one) != of_labels.end(); }));
    counts[1] += static_cast<double>(of_model.size());
    counts[2] += static_cast<double>(of_labels.size());
    begin = end;
  }
  return sums;
}

}  // namespace lacuna
