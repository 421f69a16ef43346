// Folders with adapters, as the library PEFT reads and writes them: `adapter_config.json` and
// `adapter_model.safetensors`, whose names are those of the model behind `base_model.model.`.
#pragma once

#include "models/adapters.h"
#include "models/io/safetensors.h"
#include "models/io/tensor_names.h"

#include <cstdint>
#include <filesystem>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <regex>
#include <string>
#include <string_view>
#include <vector>

namespace lacuna {

inline constexpr std::string_view adapter_config_file = "adapter_config.json";
inline constexpr std::string_view adapter_weights_file = "adapter_model.safetensors";

bool is_adapter_folder(const std::filesystem::path& path);

struct LoadedAdapter {
  bool new_head = false;          // whether the heads keep their values: the folder's are for other classes
  std::int64_t file_classes = 0;  // of its head; 0: it has none
  std::map<std::string, std::string> names{};  // of what is set, and in the file
};

class AdapterFolder {
 public:
  /// Reads the configuration and the header of the weights. Refuses kinds and options that are not computed here.
  /// `tables`: names of other libraries that the tensors may have in place of ours.
  explicit AdapterFolder(const std::filesystem::path& folder, std::vector<TensorNames> tables = {});

  const std::filesystem::path& path() const { return folder_; }
  /// The name or path of the base weights; empty if the folder does not say.
  const std::string& base() const { return base_; }
  /// Options to add the folder's adapters to `model` with. `kind`: another that trains the same values, as lora_fa;
  /// empty: the usual one of the type.
  AdapterOptions options(const Model& model, std::string_view kind = {}) const;
  /// PEFT's `task_type`; empty: not said.
  const std::string& task_type() const { return task_type_; }
  /// Outputs of the head that the folder has for `model`; 0: it has none.
  std::int64_t head_outputs(const Model& model) const;
  /// Every tensor of the folder must fit one of the model, and every adapter of the model must be there; all
  /// differences are listed. `head`: when the model's heads keep their values.
  enum class Head : std::uint8_t { loaded, kept_for_other_shapes, kept };
  LoadedAdapter check(const Model& model, Head head = Head::loaded) const;
  /// Checks, then sets the adapters and what is stored below them.
  LoadedAdapter load(Model& model, Head head = Head::loaded) const;

 private:
  std::string origin() const;
  void read_patterns(const nlohmann::ordered_json& json);
  /// Settings of the layer that the folder calls `module`; nothing: those of all.
  std::optional<OptionValues> settings_of(const std::string& module) const;
  /// Our name of a stored tensor; where the model has none, the stored one without PEFT's prefix.
  std::string name_in(const Model& model, std::string_view stored) const;

  std::filesystem::path folder_;
  SafetensorsFile weights_;
  std::string base_, task_type_;
  std::vector<TensorNames> tables_;
  std::string kind_;       // the first that is written as the folder's type
  OptionValues fields_;    // of the configuration
  OptionValues settings_;  // that they say
  struct Pattern {
    std::regex layers;
    std::string field;
    Tree value;  // of the field, for these layers
  };
  std::vector<Pattern> patterns_;  // a field's first one that matches holds
};

/// Writes both files into `folder`, which exists. `names`: those of another library in place of ours; where its
/// versions differ in a name, the tensor is stored under each of them. `task_type`: PEFT's; empty: none.
void write_adapter(const std::filesystem::path& folder, const Model& model, const TensorNames* names = nullptr,
                   std::string_view task_type = {});

}  // namespace lacuna
