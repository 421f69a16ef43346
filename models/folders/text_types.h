// Parts that transformers' encoders of text share.
#pragma once

#include "models/folders/transformers.h"

#include <nlohmann/json_fwd.hpp>

#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

namespace lacuna {

/// `base` + name for each of the names; those of norms also by gamma and beta.
std::vector<TensorNameRule> own_names(std::string_view base, std::initializer_list<std::string_view> modules,
                                      std::initializer_list<std::string_view> norms);
/// The head of the class that the folder was saved from; nothing where it has none of ours.
std::string head_of(const ConfigReader& config);
/// The class with the prefix and the suffix of the options' head.
std::string class_name(std::string_view prefix, const Options& options);
void write_values(const Options& options, std::initializer_list<const char*> keys, nlohmann::ordered_json& config);

}  // namespace lacuna
