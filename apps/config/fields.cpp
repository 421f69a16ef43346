#include "apps/config/fields.h"

#include "apps/config/rules.h"
#include "core/registry.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

namespace lacuna::apps {
namespace {

constexpr double exactly_counted = 0x1p53;

/// A model's name as timm writes it, as `timm/vit_tiny_patch16_224.augreg_in21k`, without the tag of its weights.
std::string without_tag(std::string_view name) {
  for (const std::string_view hub : {"hf_hub:", "hf-hub:", "timm/"})
    if (name.starts_with(hub)) name.remove_prefix(hub.size());
  return std::string(name.substr(0, name.find('.')));
}

/// Writes a value into its field. Returns an empty text, or a description of the expected value.
class Reader {
 public:
  Reader(std::string_view key, const Tree& node, const Values& values, Problems& problems)
      : key_(key), node_(node), values_(values), problems_(problems) {}

  std::string operator()(bool* out) const { return assign(flag_in(node_), out, "true or false"); }

  std::string operator()(std::int64_t* out) const {
    std::optional<double> value = number_in(node_);
    const bool whole = value && *value == std::floor(*value) && std::abs(*value) <= exactly_counted;
    if (!whole || !values_.range.contains(*value)) value.reset();
    return assign(value, out, to_string(values_.range, true));
  }

  template <class T>
  requires std::is_same_v<T, double> || std::is_same_v<T, std::optional<double>> std::string operator()(T* out) const {
    std::optional<double> value = number_in(node_);
    if (value && (!values_.range.contains(*value) || (values_.whole && *value != std::floor(*value)))) value.reset();
    return assign(value, out, to_string(values_.range, values_.whole));
  }

  std::string operator()(std::string* out) const {
    if (node_.kind != Tree::Kind::scalar) return "text";
    std::string text = node_.text;
    if (values_.names != nullptr) {
      const Names names = values_.names();
      const auto is_name = [&] {
        return std::ranges::find(names, text) != names.end() || (values_.also != nullptr && values_.also(text));
      };
      if (!is_name() && key_ == "model.name") text = without_tag(text);
      if (!is_name()) {
        const std::string near = nearest_name(node_.text, names);
        if (key_ == "model.name")  // there are too many to name
          return fmt::format("a name that `lacuna models` lists{}",
                             near.empty() ? "" : fmt::format(" (did you mean \"{}\"?)", near));
        return fmt::format("one of {}{}", fmt::join(names, ", "),
                           near.empty() ? "" : fmt::format(" (did you mean \"{}\"?)", near));
      }
    }
    *out = std::move(text);
    return {};
  }

  std::string operator()(Names* out) const {
    if (node_.kind != Tree::Kind::scalar) return read_list(out, "a list of texts");
    out->resize(1);  // one text is a list of one
    return (*this)(&out->front());
  }
  std::string operator()(std::vector<double>* out) const {
    if (node_.kind != Tree::Kind::scalar || !values_.or_one) return read_list(out, "a list of numbers");
    out->resize(1);
    return (*this)(&out->front());
  }
  std::string operator()(std::vector<HoldRule>* out) const {
    *out = read_hold_rules(key_, node_, problems_);
    return {};
  }
  std::string operator()(std::vector<GroupRule>* out) const {
    *out = read_group_rules(key_, node_, problems_);
    return {};
  }

 private:
  static std::string assign(const auto& value, auto* out, std::string expected) {
    if (!value) return expected;
    *out = static_cast<std::remove_pointer_t<decltype(out)>>(*value);
    return {};
  }

  template <class T>
  std::string read_list(std::vector<T>* out, const char* expected) const {
    if (node_.kind != Tree::Kind::list) return expected;
    out->clear();
    for (const Tree& item : node_.items) read_field(key_, item, &out->emplace_back(), values_, problems_);
    return {};
  }

  std::string_view key_;
  const Tree& node_;
  const Values& values_;
  Problems& problems_;
};

struct Writer {
  std::string operator()(const std::string& value) const { return to_yaml(std::string_view(value)); }
  std::string operator()(bool value) const { return value ? "true" : "false"; }
  std::string operator()(double value) const { return to_yaml(value); }
  std::string operator()(std::int64_t value) const { return fmt::format("{}", value); }
  std::string operator()(const std::optional<double>& value) const { return value ? to_yaml(*value) : ""; }
  std::string operator()(const std::vector<HoldRule>& rules) const { return write_hold_rules(rules); }
  std::string operator()(const std::vector<GroupRule>& rules) const { return write_group_rules(rules); }
  template <class T>
  std::string operator()(const std::vector<T>& values) const {
    Names written;
    for (const T& value : values) written.push_back((*this)(value));
    return fmt::format("[{}]", fmt::join(written, ", "));
  }
};

struct TypeName {
  const Values& values;

  std::string number(bool whole) const {
    return to_string(values.range, whole || values.whole).substr(2);  // without `a `
  }
  std::string operator()(const bool*) const { return "true or false"; }
  std::string operator()(const std::int64_t*) const { return number(true); }
  std::string operator()(const double*) const { return number(false); }
  std::string operator()(const std::optional<double>*) const { return number(false); }
  std::string operator()(const std::string*) const { return "text"; }
  std::string operator()(const Names*) const { return "list of texts"; }
  std::string operator()(const std::vector<double>*) const {
    return values.or_one ? "number, or a list of them" : "list of numbers";
  }
  std::string operator()(const auto*) const { return "list of rules"; }
};

}  // namespace

void read_field(std::string_view key, const Tree& node, const Field& field, const Values& values, Problems& problems) {
  if (node.kind == Tree::Kind::invalid) return;
  const std::string expected = std::visit(Reader(key, node, values, problems), field);
  if (!expected.empty()) problems.add_expected(node, key, expected);
}

std::string write_field(const Field& field) {
  return std::visit([](const auto* value) { return Writer{}(*value); }, field);
}

std::string type_name(const Field& field, const Values& values) { return std::visit(TypeName{values}, field); }

std::optional<HyperValue> read_hyper_value(const Tree& node) {
  if (node.kind == Tree::Kind::scalar) {
    if (const std::optional<double> number = number_in(node)) {
      const bool whole = *number == std::floor(*number) && std::abs(*number) <= exactly_counted;
      if (whole) return static_cast<std::int64_t>(*number);
      return *number;
    }
    if (const std::optional<bool> flag = flag_in(node)) return *flag;
    return node.text;
  }
  if (node.kind != Tree::Kind::list) return {};
  std::vector<std::int64_t> values;
  for (const Tree& item : node.items) {
    const std::optional<HyperValue> value = read_hyper_value(item);
    const auto* const whole = value ? std::get_if<std::int64_t>(&*value) : nullptr;
    if (whole == nullptr) return {};
    values.push_back(*whole);
  }
  return values;
}

std::string write_hyper_value(const HyperValue& value) { return std::visit(Writer{}, value); }

}  // namespace lacuna::apps
