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
  std::int64_t index = 0;  // the sample's index in the data set
  std::string file, why;
  std::string instead{};  // the file whose sample replaces it; empty: the sample is dropped
  bool operator==(const DamagedFile&) const = default;
};

/// For example images: `images` f32 [N, H, W, C] and `labels` i64 [N]. Alternatively `images` is u8, and the model's
/// device normalises and mixes it (ops/pixels/pixels_kernels.h) by `image_scale` f32 [N, 2, C] and, with mixup or
/// CutMix, `image_mixes` f32 [N, 6]. Text: `tokens` i64 [T], the concatenated tokens of all samples, `token_types` i64
/// [T], `offsets` i64 [N + 1] and `labels` i64 [N]; sample i owns the tokens [offsets[i], offsets[i + 1]), and
/// offsets[0] is 0.
struct Batch : NamedTensors {
  std::int64_t epoch = 0;
  std::int64_t first = 0;              // position of the first sample in the epoch's order
  std::int64_t samples = 0;            // N
  std::vector<DamagedFile> damaged{};  // samples that were replaced, or dropped (the batch is smaller then)

  Batch() = default;
  /// A batch of tensors with equally many samples on axis 0.
  Batch(std::initializer_list<Entry> tensors);

  /// Adds a packed tensor, which concatenates the rows of all samples. `offsets` names the i64 [N + 1] tensor of the
  /// batch, on the host, that holds each sample's first row.
  void set_packed(std::string_view name, Tensor tensor, std::string_view offsets = "offsets");
  /// The same for edges: i64 or i32 row numbers of the tensors packed by the offsets `indexes`.
  void set_edges(std::string_view name, Tensor tensor, std::string_view offsets, std::string_view indexes);
  /// Maps each packed tensor to the name of its offsets.
  const NamedValues<std::string>& packed() const { return packed_; }

  /// Samples [begin, end) as views, except offsets and edges, which are copied to start at 0 again.
  Batch part(std::int64_t begin, std::int64_t end) const;
  /// Total bytes of all tensors.
  std::int64_t bytes() const;

 private:
  NamedValues<std::string> packed_, indexes_;
};

/// Splits a batch into `parts` micro-batches of equal size: views of its tensors, or the batch itself if `parts` is 1.
/// Throws if `parts` does not divide the number of samples.
std::vector<Batch> split_batch(Batch batch, std::int64_t parts);

}  // namespace lacuna
