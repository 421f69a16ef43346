// Weights in and out, under the names and in the shapes that the field shares (timm's).
#pragma once

#include "models/io/weight_files.h"
#include "models/model.h"

#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace lacuna {

struct LoadOptions {
  std::string prefix = {};     // of the names to load, other names in the file are ignored; empty: found out
  std::string part = {};       // of the model whose weights alone the file holds, as its backbone; found out
  bool new_head = false;       // whether the heads keep their initial values where the file has none, or others
  bool other_classes = false;  // with new_head: whether the file's heads are for other classes, whatever their shape
  bool as_saved = false;       // whether names and shapes must be the model's own: no prefix, nothing adapted
  Library library = Library::timm;  // whose way of resampling tables is followed
  std::int64_t label_offset = 0;    // rows of the file's heads before the first class, as timm's label_offset says
};

struct LoadedWeights {
  bool new_head = false;                // whether the heads keep their initial values
  std::string part{};                   // the backbone, where the file holds no other weights: all else is new
  std::int64_t file_classes = 0;        // of the head in the file; 0: it has none under this name
  std::string prefix{};                 // that was left out of the file's names, as `module.`
  std::vector<std::string> adapted{};   // tensors of another shape, each in words
  std::vector<std::string> left_out{};  // tensors of the file that no model of Lacuna's has
};

/// Refuses a file of another model and lists every differently shaped, missing and unexpected name. A prefix that all
/// names share is left out. Counters of batches may be missing, as older files lack them, or of any type. Made to fit
/// are tables of another size and convolutions over other channels (Model::adapt), and heads with rows for a background
/// before the classes: `label_offset`, or the one of 1001 for ImageNet's 1000. With `new_head` the file may be one of
/// the model's backbone as a classifier, whose head is left out.
LoadedWeights check_weights(const Model& model, const WeightFiles& file, const LoadOptions& options = {});

/// The formats of the tensors that the file holds in few bits in the shapes of `model`.
WeightFormats stored_formats(const Model& model, const WeightFiles& file, const LoadOptions& options = {});

/// Checks, then sets every parameter and buffer from the file; values of another floating type are converted. Fails
/// where a value is not finite.
LoadedWeights load_weights(Model& model, const WeightFiles& file, const LoadOptions& options = {});

/// Whether shapes and values in f32, of any stored type, are equal. Both are on the CPU.
bool has_same_values(const Tensor& a, const Tensor& b);

/// Parameters and buffers by name; the tensors are the model's own.
std::vector<NamedTensor> state_of(const Module& model);

/// A hash of all values, in order.
std::string hash_of(const std::vector<NamedTensor>& state);

/// The tensor as `type`, decoded where it is in few bits; a counter as it is. Refuses values beyond the range of the
/// type once it is made.
PendingTensor converted(const std::string& name, const Tensor& tensor, DType type);
/// Writes the state as a file that timm loads, floats as `type`; weights in few bits stay as they are.
void save_weights(const Module& model, const std::filesystem::path& path, DType type = DType::f32);

}  // namespace lacuna
