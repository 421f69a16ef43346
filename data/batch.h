// A batch: named tensors of several samples.
#pragma once

#include "core/named_values.h"
#include "core/tensor.h"

#include <cstdint>
#include <string>
#include <vector>

namespace lacuna {

using NamedTensors = NamedValues<Tensor>;

/// A file of the data set that cannot be decoded.
struct DamagedFile {
  std::int64_t index = 0;  // of its sample in the data set
  std::string file, why;
  std::string instead{};  // the file whose sample took its place; empty: it is left out
  bool operator==(const DamagedFile&) const = default;
};

/// For images `images` f32 [N, H, W, C] and `labels` i64 [N]; or `images` u8, which the device of the model normalises
/// and mixes (ops/pixels/pixels_kernels.h): `image_scale` f32 [N, 2, C], and `image_mixes` f32 [N, 6] where they are
/// mixed. For text `tokens` i64 [T], the tokens of all samples one after another, `token_types` i64 [T], `offsets` i64
/// [N + 1] and `labels` i64 [N]: sample i has the tokens from offsets[i] to offsets[i + 1] - 1, and offsets[0] is 0.
struct Batch : NamedTensors {
  std::int64_t epoch = 0;
  std::int64_t first = 0;              // place of its first sample in the epoch's order
  std::int64_t samples = 0;            // N
  std::vector<DamagedFile> damaged{};  // replaced, or left out: it has fewer samples then

  Batch() = default;
  /// A batch of tensors with equally many samples on axis 0.
  Batch(std::initializer_list<Entry> tensors);

  /// Adds a tensor that holds the rows of all samples one after another. `offsets` names the i64 [N + 1] tensor of the
  /// batch, on the host, that says where each sample begins.
  void set_packed(std::string_view name, Tensor tensor, std::string_view offsets = "offsets");
  /// The packed tensors, each with the name of its offsets.
  const NamedValues<std::string>& packed() const { return packed_; }

  /// Samples [begin, end) as views; offsets that begin anew at 0 are copies.
  Batch part(std::int64_t begin, std::int64_t end) const;
  /// Bytes of all tensors.
  std::int64_t bytes() const;

 private:
  NamedValues<std::string> packed_;
};

/// Cuts a batch into `parts` micro-batches of equal size: views of its tensors, or the batch itself where it is one. An
/// error where `parts` does not divide the number of samples.
std::vector<Batch> split_batch(Batch batch, std::int64_t parts);

}  // namespace lacuna
