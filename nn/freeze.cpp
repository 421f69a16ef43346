#include "nn/freeze.h"

#include "core/registry.h"

#include <fnmatch.h>

namespace lacuna {

bool matches_glob(std::string_view pattern, std::string_view text) {
  return fnmatch(std::string(pattern).c_str(), std::string(text).c_str(), 0) == 0;
}

std::vector<FreezeMatch> freeze(Module& model, const FreezeRules& rules) {
  if (!rules.train.empty() && !rules.freeze.empty())
    reject("freeze: give either `train` (only these are trained) or `freeze` (all but these are), not both");
  const std::vector<Parameter*> parameters = model.parameters();
  const bool trains = !rules.train.empty();
  if (trains)
    for (Parameter* parameter : parameters) parameter->set_trainable(false);
  std::vector<FreezeMatch> matches;
  for (const std::string& pattern : trains ? rules.train : rules.freeze) {
    FreezeMatch match{pattern, {}};
    for (Parameter* parameter : parameters) {
      if (!matches_glob(pattern, parameter->path())) continue;
      parameter->set_trainable(trains);
      match.parameters.push_back(parameter);
    }
    if (match.parameters.empty()) {
      std::vector<std::string> paths;
      for (const Parameter* parameter : parameters) paths.push_back(parameter->path());
      const std::string near = nearest_name(pattern, paths);
      reject("freeze: the pattern `{}` matches no parameter{}; parameters are named like {}, {}", pattern,
             near.empty() ? "" : ": did you mean " + near + "?", paths.front(), paths.back());
    }
    matches.push_back(std::move(match));
  }
  model.notify_freeze();
  return matches;
}

}  // namespace lacuna
