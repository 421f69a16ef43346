// Models that predict the next token of a text.
#pragma once

#include "models/model.h"

#include <cstdint>
#include <span>
#include <vector>

namespace lacuna {

/// Keys and values of the tokens that a model has read of one sequence.
class KeyValueCache {
 public:
  /// Room for `capacity` tokens in each of `layers`; the tensors are made by the first tokens.
  KeyValueCache(std::int64_t layers, std::int64_t capacity)
      : keys_(static_cast<std::size_t>(layers)), values_(static_cast<std::size_t>(layers)), capacity_(capacity) {}

  std::int64_t length() const { return length_; }
  std::int64_t capacity() const { return capacity_; }
  /// Writes the rows of k and v [1, n, width] behind the tokens of `layer`; k and v become all rows [1, capacity,
  /// width], of which the first length() + n are tokens. `advance` follows after the last layer.
  void append(std::size_t layer, Tensor& k, Tensor& v);
  void advance(std::int64_t tokens) { length_ += tokens; }
  void clear() { length_ = 0; }

 private:
  std::vector<Tensor> keys_, values_;  // each [1, capacity, width]
  std::int64_t capacity_, length_ = 0;
};

/// A model whose outputs, as of `masked_lm` heads, are `hidden` [1, M, C], `decoder_weight` [V, C] and perhaps
/// `decoder_bias` [V]: logits = soft_cap · tanh((hidden · decoder_weightᵀ + decoder_bias) / soft_cap), where a soft cap
/// of 0 leaves them as they are. M is the number of tokens that the input `rows` i64 [M] names, or all.
class LanguageModel : public Model {
 public:
  using Model::Model;

  virtual std::int64_t layers() const = 0;
  /// Tokens of the longest sequence.
  virtual std::int64_t positions() const = 0;
  virtual double soft_cap() const = 0;
  /// A tied head: its name in files, which may hold it beside the parameter that it is. Empty: there is none.
  struct TiedHead {
    std::string_view name, parameter;
  };
  virtual TiedHead tied_head() const = 0;
  /// Reads `tokens` behind those in `cache`; returns the logits [V] for the token after the last one. Refuses more
  /// tokens than the cache or the model has room for.
  virtual Tensor read(std::span<const std::int64_t> tokens, KeyValueCache& cache) = 0;
  /// Longest sequence whose positions are encoded another way than those of longer ones (LongRoPE); 0: there is none.
  /// `read` refuses to go beyond it with a cache of fewer tokens.
  virtual std::int64_t short_length() const { return 0; }
  /// Reads the tokens of `all` that `cache`, which holds those before, does not have; all of them where `all` is the
  /// first beyond `short_length`, as transformers' Phi-3 does. Returns what `read` does.
  Tensor read_rest(std::span<const std::int64_t> all, KeyValueCache& cache);

 protected:
  /// Whether a sequence of `length` tokens is beyond `short_length`, and the cache, if it has tokens, is not.
  bool outdates(const KeyValueCache& cache, std::int64_t length) const {
    return cache.length() > 0 && cache.length() <= short_length() && length > short_length();
  }
};

/// The logits [M, V] of a model's outputs.
Variable logits_of(const Outputs& outputs, double soft_cap);

}  // namespace lacuna
