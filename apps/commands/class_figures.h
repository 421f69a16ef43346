// What an evaluation says of single classes and samples: accuracy of each class, the confusion matrix, the worst
// samples.
#pragma once

#include "core/communicator.h"
#include "core/tensor.h"

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace lacuna::apps {

class ClassFigures {
 public:
  /// `classes`: names by label, as many as there are; the rest go by their numbers.
  explicit ClassFigures(std::vector<std::string> classes) : names_(std::move(classes)) {}

  /// Adds a batch: logits [N, C] and labels i64 [N]. Samples are numbered in the order in which they are added.
  void add(const Tensor& logits, const Tensor& labels);
  /// Goes on with the batches of all ranks: the first of each in the order of the ranks, the second of each, and so on.
  void gather(Communicator& ranks);
  /// Samples that were taken for another class, the least probability of their label first; not all.
  std::vector<std::int64_t> worst() const;
  std::int64_t samples() const { return static_cast<std::int64_t>(results_.size()); }

  /// `top1`, `top5` (of more than five classes), `per_class`, `confusion` (of up to 100 classes: a row for each label,
  /// a column for each prediction), `most_confused` and `worst`: the samples whose label got the least probability.
  /// `origin` names a sample.
  nlohmann::ordered_json json(const std::function<std::string(std::int64_t)>& origin) const;
  /// The same in a few lines for people.
  std::string text(const std::function<std::string(std::int64_t)>& origin) const;

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
  std::string name(std::int64_t label) const;
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

}  // namespace lacuna::apps
