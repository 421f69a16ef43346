// Figures of single classes and samples: accuracy of each class, the confusion matrix, the worst samples.
#pragma once

#include "models/figures.h"
#include "models/prediction.h"

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace lacuna {

class ClassFigures final : public Figures {
 public:
  /// `classes`: names by label; a class without one goes by its number.
  explicit ClassFigures(std::vector<std::string> classes) : Figures("classes"), names_(std::move(classes)) {}

  /// Logits [N, C] and labels i64 [N].
  void add(const Tensor& logits, const Tensor& labels) override;
  void gather(Communicator& ranks) override;
  std::int64_t samples() const override { return static_cast<std::int64_t>(results_.size()); }
  /// Up to 20 samples that were taken for another class, the least probability of their label first.
  std::vector<std::int64_t> worst() const override;

  /// `top1`, `top5` (of more than five classes), `per_class`, `confusion` (of up to 100 classes: a row for each label,
  /// a column for each prediction), `most_confused` and `worst`.
  nlohmann::ordered_json json(const SampleName& origin) const override;
  std::string text(const SampleName& origin) const override;

 private:
  struct Result {  // of a sample
    std::int32_t label, predicted;
    float probability;  // of the label
    bool in_top5;
  };
  void add_result(const Result& result);
  struct Pair {  // of a label and another class that was predicted
    std::int64_t label, predicted, samples;
  };
  std::string name(std::int64_t label) const { return class_name(names_, label); }
  std::int64_t count(std::int64_t label, std::int64_t predicted) const {
    const auto found = confusion_.find({label, predicted});
    return found == confusion_.end() ? 0 : found->second;
  }
  std::int64_t samples_of(std::int64_t label) const { return of_class_[static_cast<std::size_t>(label)]; }
  std::vector<Pair> most_confused() const;
  double top1() const;

  std::vector<std::string> names_;
  std::int64_t classes_ = 0, in_top5_ = 0;
  std::vector<std::int64_t> of_class_;                                       // [classes], samples with this label
  std::map<std::pair<std::int64_t, std::int64_t>, std::int64_t> confusion_;  // samples by label and prediction
  std::vector<Result> results_;
  std::vector<std::int64_t> batches_;  // samples of each
};

}  // namespace lacuna
