#include "data/augment/policies.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <initializer_list>
#include <limits>
#include <map>
#include <string>
#include <utility>

namespace lacuna::augment {
namespace {

// The tables are copied from auto_augment.py of timm 1.0.31.

/// Operation, probability, magnitude.
struct Entry {
  std::string_view operation;
  double probability, magnitude;
};
using Chains = std::vector<std::vector<Entry>>;
/// Operations with sampling weights; all 1 if uniform.
using Set = std::vector<std::pair<std::string_view, double>>;

/// The ImageNet policy of the TPU implementation of EfficientNet.
const Chains v0{
    {{"Equalize", 0.8, 1}, {"ShearY", 0.8, 4}},
    {{"Color", 0.4, 9}, {"Equalize", 0.6, 3}},
    {{"Color", 0.4, 1}, {"Rotate", 0.6, 8}},
    {{"Solarize", 0.8, 3}, {"Equalize", 0.4, 7}},
    {{"Solarize", 0.4, 2}, {"Solarize", 0.6, 2}},
    {{"Color", 0.2, 0}, {"Equalize", 0.8, 8}},
    {{"Equalize", 0.4, 8}, {"SolarizeAdd", 0.8, 3}},
    {{"ShearX", 0.2, 9}, {"Rotate", 0.6, 8}},
    {{"Color", 0.6, 1}, {"Equalize", 1, 2}},
    {{"Invert", 0.4, 9}, {"Rotate", 0.6, 0}},
    {{"Equalize", 1, 9}, {"ShearY", 0.6, 3}},
    {{"Color", 0.4, 7}, {"Equalize", 0.6, 0}},
    {{"Posterize", 0.4, 6}, {"AutoContrast", 0.4, 7}},
    {{"Solarize", 0.6, 8}, {"Color", 0.6, 9}},
    {{"Solarize", 0.2, 4}, {"Rotate", 0.8, 9}},
    {{"Rotate", 1, 7}, {"TranslateYRel", 0.8, 9}},
    {{"ShearX", 0, 0}, {"Solarize", 0.8, 4}},
    {{"ShearY", 0.8, 0}, {"Color", 0.6, 4}},
    {{"Color", 1, 0}, {"Rotate", 0.6, 2}},
    {{"Equalize", 0.8, 4}, {"Equalize", 0, 8}},
    {{"Equalize", 1, 4}, {"AutoContrast", 0.6, 2}},
    {{"ShearY", 0.4, 7}, {"SolarizeAdd", 0.6, 7}},
    {{"Posterize", 0.8, 2}, {"Solarize", 0.6, 10}},
    {{"Solarize", 0.6, 8}, {"Equalize", 0.6, 1}},
    {{"Color", 0.8, 6}, {"Rotate", 0.4, 5}},
};
/// The ImageNet policy of the paper (Cubuk et al. 2018, table 9).
const Chains original{
    {{"PosterizeOriginal", 0.4, 8}, {"Rotate", 0.6, 9}},
    {{"Solarize", 0.6, 5}, {"AutoContrast", 0.6, 5}},
    {{"Equalize", 0.8, 8}, {"Equalize", 0.6, 3}},
    {{"PosterizeOriginal", 0.6, 7}, {"PosterizeOriginal", 0.6, 6}},
    {{"Equalize", 0.4, 7}, {"Solarize", 0.2, 4}},
    {{"Equalize", 0.4, 4}, {"Rotate", 0.8, 8}},
    {{"Solarize", 0.6, 3}, {"Equalize", 0.6, 7}},
    {{"PosterizeOriginal", 0.8, 5}, {"Equalize", 1, 2}},
    {{"Rotate", 0.2, 3}, {"Solarize", 0.6, 8}},
    {{"Equalize", 0.6, 8}, {"PosterizeOriginal", 0.4, 6}},
    {{"Rotate", 0.8, 8}, {"Color", 0.4, 0}},
    {{"Rotate", 0.4, 9}, {"Equalize", 0.6, 2}},
    {{"Equalize", 0, 7}, {"Equalize", 0.8, 8}},
    {{"Invert", 0.6, 4}, {"Equalize", 1, 8}},
    {{"Color", 0.6, 4}, {"Contrast", 1, 8}},
    {{"Rotate", 0.8, 8}, {"Color", 1, 2}},
    {{"Color", 0.8, 8}, {"Solarize", 0.8, 7}},
    {{"Sharpness", 0.4, 7}, {"Invert", 0.6, 8}},
    {{"ShearX", 0.6, 5}, {"Equalize", 1, 9}},
    {{"Color", 0.4, 0}, {"Equalize", 0.6, 3}},
    {{"Equalize", 0.4, 7}, {"Solarize", 0.2, 4}},
    {{"Solarize", 0.6, 5}, {"AutoContrast", 0.6, 5}},
    {{"Invert", 0.6, 4}, {"Equalize", 1, 8}},
    {{"Color", 0.6, 4}, {"Contrast", 1, 8}},
    {{"Equalize", 0.8, 8}, {"Equalize", 0.6, 3}},
};
/// 3-Augment: solarization, grayscale or blur (DeiT III).
const Chains three_augment{{{"Solarize", 1, 5}}, {{"Desaturate", 1, 10}}, {{"GaussianBlurRand", 1, 10}}};

const Set standard{{"AutoContrast", 1}, {"Equalize", 1},    {"Invert", 1}, {"Rotate", 1},        {"Posterize", 1},
                   {"Solarize", 1},     {"SolarizeAdd", 1}, {"Color", 1},  {"Contrast", 1},      {"Brightness", 1},
                   {"Sharpness", 1},    {"ShearX", 1},      {"ShearY", 1}, {"TranslateXRel", 1}, {"TranslateYRel", 1}};
const Set increasing{{"AutoContrast", 1},
                     {"Equalize", 1},
                     {"Invert", 1},
                     {"Rotate", 1},
                     {"PosterizeIncreasing", 1},
                     {"SolarizeIncreasing", 1},
                     {"SolarizeAdd", 1},
                     {"ColorIncreasing", 1},
                     {"ContrastIncreasing", 1},
                     {"BrightnessIncreasing", 1},
                     {"SharpnessIncreasing", 1},
                     {"ShearX", 1},
                     {"ShearY", 1},
                     {"TranslateXRel", 1},
                     {"TranslateYRel", 1}};
const Set of_three{{"SolarizeIncreasing", 1}, {"Desaturate", 1}, {"GaussianBlur", 1}};
const Set of_three_weighted{{"SolarizeIncreasing", 6},
                            {"Desaturate", 6},
                            {"GaussianBlur", 6},
                            {"Rotate", 3},
                            {"ShearX", 2},
                            {"ShearY", 2},
                            {"PosterizeIncreasing", 1},
                            {"AutoContrast", 1},
                            {"ColorIncreasing", 1},
                            {"SharpnessIncreasing", 1},
                            {"ContrastIncreasing", 1},
                            {"BrightnessIncreasing", 1},
                            {"Equalize", 1},
                            {"Invert", 1}};
const Set weighted{{"Rotate", 3},
                   {"ShearX", 2},
                   {"ShearY", 2},
                   {"TranslateXRel", 1},
                   {"TranslateYRel", 1},
                   {"ColorIncreasing", 0.25},
                   {"SharpnessIncreasing", 0.25},
                   {"AutoContrast", 0.25},
                   {"SolarizeIncreasing", 0.05},
                   {"SolarizeAdd", 0.05},
                   {"ContrastIncreasing", 0.05},
                   {"BrightnessIncreasing", 0.05},
                   {"Equalize", 0.05},
                   {"PosterizeIncreasing", 0.05},
                   {"Invert", 0.05}};
const Set of_mix{{"AutoContrast", 1},
                 {"ColorIncreasing", 1},
                 {"ContrastIncreasing", 1},
                 {"BrightnessIncreasing", 1},
                 {"SharpnessIncreasing", 1},
                 {"Equalize", 1},
                 {"Rotate", 1},
                 {"PosterizeIncreasing", 1},
                 {"SolarizeIncreasing", 1},
                 {"ShearX", 1},
                 {"ShearY", 1},
                 {"TranslateXRel", 1},
                 {"TranslateYRel", 1}};

/// The sections after a policy's name: `m9` maps `m` to 9, `tweights` maps `t` to "weights".
class Sections {
 public:
  struct Known {
    std::string_view key;
    double low, high;
    bool whole;
  };

  Sections(std::string_view text, std::span<const Known> known, bool has_set) : text_(text) {
    std::size_t begin = text.find('-');
    while (begin != std::string_view::npos) {
      const std::size_t end = text.find('-', ++begin);
      add(text.substr(begin, end == std::string_view::npos ? end : end - begin), known, has_set);
      begin = end;
    }
  }

  double number(std::string_view key, double otherwise) const {
    const auto found = numbers_.find(key);
    return found == numbers_.end() ? otherwise : found->second;
  }
  std::int64_t whole_number(std::string_view key, std::int64_t otherwise) const {
    return static_cast<std::int64_t>(number(key, static_cast<double>(otherwise)));
  }
  std::string_view set() const { return set_; }

 private:
  void add(std::string_view section, std::span<const Known> known, bool has_set) {
    if (has_set && section.starts_with('t')) {
      if (!std::exchange(set_, section.substr(1)).empty()) reject("data.auto_augment: '{}' says `t` twice", text_);
      return;
    }
    const std::size_t digit = std::min(section.find_first_of("0123456789"), section.size());
    const std::string_view key = section.substr(0, digit), digits = section.substr(digit);
    const auto found = std::ranges::find(known, key, &Known::key);
    if (found == known.end()) {
      std::string keys;
      for (const Known& one : known) keys += fmt::format("{}{}", keys.empty() ? "" : ", ", one.key);
      reject("data.auto_augment: '{}' has a section '{}'; expected a number behind one of {}{}", text_, section, keys,
             has_set ? ", or t and weights, 3a or 3aw" : "");
    }
    double value = 0;
    const auto [end, error] = std::from_chars(digits.begin(), digits.end(), value);
    const bool is_number = error == std::errc() && end == digits.end() && (!found->whole || value == std::floor(value));
    if (!is_number || value < found->low || value > found->high)
      reject("data.auto_augment: expected {} from {} to {} behind `{}` of '{}', got '{}'",
             found->whole ? "a whole number" : "a number", found->low, found->high, key, text_, digits);
    if (!numbers_.emplace(key, value).second) reject("data.auto_augment: '{}' says `{}` twice", text_, key);
  }

  std::string_view text_, set_;
  std::map<std::string_view, double> numbers_;
};

constexpr double most_deviation = 1e6;
constexpr Sections::Known mstd{"mstd", 0, most_deviation, false};
// The limits bound the number of draws per sample below SampleRandom's maximum.
constexpr Sections::Known random_sections[]{{"m", 0, 100, true},    {"n", 1, 32, true},  {"p", 0, 1, false},
                                            {"mmax", 1, 100, true}, {"inc", 0, 1, true}, mstd};
constexpr Sections::Known chain_sections[]{mstd};
constexpr Sections::Known mix_sections[]{{"m", 0, 100, true},     {"w", 1, 8, true}, {"d", 1, 6, true},
                                         {"a", 0.01, 100, false}, {"b", 0, 1, true}, mstd};

std::vector<Step> steps_of(const Set& set, const Step& all) {
  std::vector<Step> steps;
  for (const auto& entry : set) {
    steps.push_back(all);
    steps.back().operation = &operation(entry.first);
  }
  return steps;
}

Policy random_policy(std::string_view text) {
  const Sections sections(text, random_sections, true);
  constexpr double uniform_above = 100;  // timm's threshold
  const double deviation = sections.number("mstd", 0);
  const Step all{.probability = sections.number("p", 0.5),
                 .magnitude = sections.number("m", 10),
                 .deviation = deviation > uniform_above ? std::numeric_limits<double>::infinity() : deviation,
                 .highest = sections.number("mmax", 10)};
  const bool inc =
      sections.whole_number("inc", 0) == 1;  // inc0 is off, as in timm since 1.0.30, which read it as inc1 before
  const std::map<std::string_view, const Set*> sets{
      {"", inc ? &increasing : &standard}, {"weights", &weighted}, {"3a", &of_three}, {"3aw", &of_three_weighted}};
  const auto set = sets.find(sections.set());
  if (set == sets.end())
    reject("data.auto_augment: expected tweights, t3a or t3aw, got 't{}' in '{}'", sections.set(), text);
  Policy policy{.kind = Policy::Kind::random,
                .steps = steps_of(*set->second, all),
                .layers = sections.whole_number("n", 2),
                .keeps_color_jitter = sections.set().starts_with("3a")};
  if (set->second == &weighted || set->second == &of_three_weighted) {
    for (const auto& entry : *set->second) policy.weights.push_back(entry.second);
    if (policy.layers > std::ssize(policy.weights))
      reject("data.auto_augment: '{}' takes {} operations, none of them twice, of {}", text, policy.layers,
             policy.weights.size());
  }
  return policy;
}

Policy chosen_policy(std::string_view text, const Chains& chains, bool increases, bool keeps_color_jitter) {
  const Sections sections(text, chain_sections, false);
  Policy policy{.kind = Policy::Kind::choice, .keeps_color_jitter = keeps_color_jitter};
  for (const auto& chain : chains) {
    std::vector<Step>& steps = policy.chains.emplace_back();
    for (const auto& [name, probability, magnitude] : chain)
      steps.push_back(
          {.operation = &operation(increases && name.starts_with("Posterize") ? "PosterizeIncreasing" : name),
           .probability = probability,
           .magnitude = magnitude,
           .deviation = sections.number("mstd", 0)});
  }
  return policy;
}

Policy mix_policy(std::string_view text) {
  const Sections sections(text, mix_sections, false);
  const Step all{.probability = 1,
                 .magnitude = sections.number("m", 3),
                 .deviation = sections.number("mstd", std::numeric_limits<double>::infinity())};
  return {.kind = Policy::Kind::mix,
          .steps = steps_of(of_mix, all),
          .layers = sections.whole_number("w", 3),
          .depth = sections.whole_number("d", 0),
          .alpha = sections.number("a", 1),
          .blends_each = sections.whole_number("b", 0) == 1};
}

}  // namespace

Geometry Step::apply(SampleImage& image, const Surroundings& surroundings, SampleRandom& random) const {
  if (probability < 1 && random.uniform() >= probability) return {};
  double drawn = magnitude;
  if (std::isinf(deviation))
    drawn = random.uniform(0, magnitude);
  else if (deviation > 0)
    drawn += deviation * random.normal();
  drawn = std::clamp(drawn, 0.0, highest);
  const double sign = operation->draws_sign && random.below(2) == 1 ? -1 : 1;
  const double argument = operation->argument == nullptr ? 0 : operation->argument(drawn, sign, surroundings);
  return operation->apply(image, argument, surroundings, random);
}

Policy parse_policy(std::string_view text) {
  const std::string_view name = text.substr(0, text.find('-'));
  if (name == "rand") return random_policy(text);
  if (name == "augmix") return mix_policy(text);
  if (name == "original") return chosen_policy(text, original, false, false);
  if (name == "originalr") return chosen_policy(text, original, true, false);
  if (name == "v0") return chosen_policy(text, v0, false, false);
  if (name == "v0r") return chosen_policy(text, v0, true, false);
  if (name == "3a") return chosen_policy(text, three_augment, false, true);
  reject("data.auto_augment: expected rand, original, originalr, v0, v0r, 3a or augmix, got '{}' in '{}'", name, text);
}

}  // namespace lacuna::augment
