// The typed fields that configuration keys are read into and written from.
#pragma once

#include "apps/config/yaml.h"
#include "autograd/policies/rules.h"
#include "core/schema.h"
#include "models/hyper_parameters.h"
#include "optim/optimizer.h"

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace lacuna::apps {

/// Where a key's value lives; its type is the key's.
using Field = std::variant<bool*, std::int64_t*, double*, std::optional<double>*, std::string*, Names*,
                           std::vector<double>*, std::vector<HoldRule>*, std::vector<GroupRule>*>;

/// The values that a key takes: a range for numbers, names to choose from for texts (null: any text); `or_one`: one
/// number stands for a list of one; `also`: further texts beside the names, such as `cuda:1`.
struct Values {
  NumberRange range{};
  bool whole = false;
  Names (*names)() = nullptr;
  bool or_one = false;
  bool (*also)(std::string_view text) = nullptr;
};

/// A key of a `Root`: of the configuration, or of a rule in one of its lists.
template <class Root>
struct Key {
  template <class Part, class T>
  Key(std::string_view key, T Part::*member, Values takes, std::string_view meaning, std::string_view belongs_to = {})
      : name(key), values(takes), help(meaning), only_for(belongs_to), field([member](Root& root) -> Field {
          if constexpr (std::is_same_v<Part, Root>)
            return &(root.*member);
          else
            return &(std::get<Part&>(root.parts()).*member);
        }) {}

  std::string_view name;  // `section.key`, or the key of a rule
  Values values;
  std::string_view help;
  std::string_view only_for;  // the optimizer, policy or the like that the key belongs to; empty: any
  std::function<Field(Root&)> field;
};

/// Reads a value. What does not fit becomes a problem at the value's place that names `key`.
void read_field(std::string_view key, const Tree& node, const Field& field, const Values& values, Problems& problems);
/// As YAML on one line.
std::string write_field(const Field& field);
/// As `whole number in [1, 8]`, `text`, `list of rules`.
std::string type_name(const Field& field, const Values& values);

/// A model's hyper-parameter: a value or a list of whole numbers. Empty for any other node.
std::optional<HyperValue> read_hyper_value(const Tree& node);
std::string write_hyper_value(const HyperValue& value);

}  // namespace lacuna::apps
