// Figures of an evaluation beside its metrics, such as a confusion matrix.
#pragma once

#include "core/communicator.h"
#include "core/tensor.h"

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace lacuna {

/// A task makes an object of its own kind and adds each batch to it; `lacuna eval` prints and stores the result, and
/// the report draws it.
class Figures {
 public:
  /// Names a sample by its number in the order of evaluation.
  using SampleName = std::function<std::string(std::int64_t)>;

  /// `key` is the key of the figures in JSON.
  explicit Figures(std::string key) : key_(std::move(key)) {}
  virtual ~Figures() = default;
  Figures(const Figures&) = delete;
  Figures& operator=(const Figures&) = delete;

  const std::string& key() const { return key_; }
  /// Adds a batch: outputs of the model and targets, as the task compares them.
  virtual void add(const Tensor& outputs, const Tensor& targets) = 0;
  /// Continues with the batches of all ranks: the first of each in the order of the ranks, the second of each, and so
  /// on.
  virtual void gather(Communicator& ranks) = 0;
  /// Samples added so far.
  virtual std::int64_t samples() const = 0;
  /// Samples worth a look, the worst first: those of the list `worst` in `json`.
  virtual std::vector<std::int64_t> worst() const { return {}; }
  /// An object. The report draws numbers as shares, lists of objects as tables, and lists of lists as a matrix whose
  /// rows are those of the table `per_class`.
  virtual nlohmann::ordered_json json(const SampleName& name) const = 0;
  /// The figures as a few lines of text.
  virtual std::string text(const SampleName& name) const = 0;

 private:
  std::string key_;
};

}  // namespace lacuna
