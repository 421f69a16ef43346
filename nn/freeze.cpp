#include "nn/freeze.h"

#include "core/glob.h"

#include "core/registry.h"

#include <set>

namespace lacuna {

namespace {

[[noreturn]] void refuse(const std::string& pattern, const std::vector<Parameter*>& parameters) {
  std::vector<std::string> paths;
  for (const Parameter* parameter : parameters) paths.push_back(parameter->path());
  const std::string near = nearest_name(pattern, paths);
  reject("freeze: the pattern `{}` matches no parameter{}{}", pattern,
         near.empty() ? "" : ": did you mean " + near + "?",
         paths.empty() ? "; the model has none" : "; parameters are named like " + paths.front() + ", " + paths.back());
}

}  // namespace

std::vector<FreezeMatch> freeze(Module& model, const FreezeRules& rules) {
  if (!rules.train.empty() && !rules.freeze.empty())
    reject("freeze: give either `train` (only these are trained) or `freeze` (all but these are), not both");
  const std::vector<Parameter*> parameters = model.parameters();
  const bool trains = !rules.train.empty();
  std::vector<FreezeMatch> matches;
  std::set<const Parameter*> matched;
  for (const std::string& pattern : trains ? rules.train : rules.freeze) {
    FreezeMatch& match = matches.emplace_back(FreezeMatch{pattern, {}});
    for (const Parameter* parameter : parameters)
      if (matches_glob(pattern, parameter->path())) match.parameters.push_back(parameter);
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
