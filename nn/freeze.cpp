#include "nn/freeze.h"

#include "core/glob.h"
#include "core/registry.h"

#include <algorithm>
#include <charconv>
#include <functional>
#include <set>

namespace lacuna {

namespace {

using Parameters = std::vector<const Parameter*>;

bool in_heads(const Parameter& parameter, const std::vector<std::string>& heads) {
  return std::ranges::any_of(heads, [&](const std::string& head) { return belongs_to(parameter.path(), head); });
}

Parameters selected(const Module& model, const std::function<bool(const Parameter&)>& chosen) {
  Parameters all;
  for (const Parameter* const parameter : model.parameters())
    if (chosen(*parameter)) all.push_back(parameter);
  return all;
}

Parameters of_norms(const Module& model) {
  std::set<const Parameter*> norms;
  for (const Module* const module : model.modules())
    if (module->role() == Role::norm)
      for (const Parameter* const parameter : module->parameters()) norms.insert(parameter);
  return selected(model, [&](const Parameter& one) { return norms.contains(&one); });
}

Parameters of_biases(const Module& model) {
  return selected(model, [](const Parameter& one) {
    const std::string_view path = one.path();
    return one.shape().rank() <= 1 && (path == "bias" || path.ends_with(".bias") || path.ends_with("_bias"));
  });
}

Parameters of_last_blocks(const Module& model, std::int64_t count, const std::vector<std::string>& heads) {
  std::vector<const Module*> blocks;
  for (const Module* const module : model.modules())
    if (module->role() == Role::block) blocks.push_back(module);
  if (blocks.empty()) reject("freeze: @last{}: the model declares no blocks", count);
  if (count > std::ssize(blocks))
    reject("freeze: @last{}: expected at most @last{}, as the model has {} blocks", count, blocks.size(),
           blocks.size());
  const std::vector<Parameter*> all = model.parameters();
  const std::vector<Parameter*> of_first = blocks[blocks.size() - static_cast<std::size_t>(count)]->parameters();
  const auto begin = std::ranges::find(all, of_first.front());
  Parameters last;
  std::copy_if(begin, all.end(), std::back_inserter(last),
               [&](const Parameter* one) { return !in_heads(*one, heads); });
  return last;
}

/// The parameters of the named set `name`, given without its @.
Parameters of_set(const Module& model, std::string_view name, const std::vector<std::string>& heads) {
  constexpr std::string_view last = "last";
  if (name == "head") return selected(model, [&](const Parameter& one) { return in_heads(one, heads); });
  if (name == "norms") return of_norms(model);
  if (name == "bias") return of_biases(model);
  if (name.starts_with(last)) {
    std::int64_t count = 0;
    const char *const begin = name.data() + last.size(), *const end = name.data() + name.size();
    if (const auto [at, failed] = std::from_chars(begin, end, count); failed == std::errc() && at == end && count > 0)
      return of_last_blocks(model, count, heads);
  }
  reject("freeze: unknown set @{}: known are @head, @norms, @bias and @lastN, as @last4 for the last four blocks",
         name);
}

[[noreturn]] void refuse(const std::string& pattern, const std::vector<Parameter*>& parameters) {
  if (pattern.starts_with('@')) reject("freeze: the model has no parameters in the set {}", pattern);
  std::vector<std::string> paths;
  for (const Parameter* parameter : parameters) paths.push_back(parameter->path());
  const std::string near = nearest_name(pattern, paths);
  reject("freeze: the pattern `{}` matches no parameter{}{}", pattern,
         near.empty() ? "" : ": did you mean " + near + "?",
         paths.empty() ? "; the model has none" : "; parameters are named like " + paths.front() + ", " + paths.back());
}

}  // namespace

Fields FreezeRules::fields() {
  return {
      field("train", &FreezeRules::train, training_only,
            "patterns (`*`, `?`, `[abc]`) on parameter names, or the sets `@head`, `@norms`, `@bias`, `@lastN` (as "
            "`@last4`: the last four blocks): trains the matching parameters only"),
      field("freeze", &FreezeRules::freeze, training_only, "patterns or sets: trains all but the matching parameters"),
      field("weights", &FreezeRules::weights,
            "type in which frozen weights of linear layers, convolutions and embeddings are stored: `f32`, `bf16`, "
            "`int8`, `nf4` (QLoRA), `int4`; `PATTERN=TYPE` in a list for some of them; `auto`: the first of these that "
            "memory.budget has room for; empty: as model.from has them, where bitsandbytes quantized them, else f32")};
}

std::vector<FreezeMatch> freeze(Module& model, const FreezeRules& rules, const std::vector<std::string>& heads) {
  if (!rules.train.empty() && !rules.freeze.empty())
    reject("freeze: give either `train` (only these are trained) or `freeze` (all but these are), not both");
  const std::vector<Parameter*> parameters = model.parameters();
  const bool trains = !rules.train.empty();
  std::vector<FreezeMatch> matches;
  std::set<const Parameter*> matched;
  for (const std::string& pattern : trains ? rules.train : rules.freeze) {
    FreezeMatch& match = matches.emplace_back(FreezeMatch{pattern, {}});
    match.parameters = pattern.starts_with('@')
                           ? of_set(model, std::string_view(pattern).substr(1), heads)
                           : selected(model, [&](const Parameter& one) { return matches_glob(pattern, one.path()); });
    if (match.parameters.empty()) refuse(pattern, parameters);
    matched.insert(match.parameters.begin(), match.parameters.end());
  }
  for (Parameter* parameter : parameters) {
    if (matched.contains(parameter))
      parameter->set_trainable(trains);
    else if (trains)
      parameter->set_trainable(false);
  }
  model.notify_freeze();
  return matches;
}

}  // namespace lacuna
