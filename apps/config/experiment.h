// A configuration with what it names opened once, and with what a process knows about its run besides.
#pragma once

#include "apps/config/configuration.h"
#include "autograd/plan/memory_plan.h"
#include "core/card.h"
#include "data/dataset.h"
#include "models/registry.h"

#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace lacuna::apps {

/// The configuration's keys are as given until `resolve` settles those that are left open; classes and metrics are
/// those of the data set from the start.
struct Experiment : Configuration {
  /// This process among those that train together.
  struct Process {
    int rank = 0, ranks = 1;
    int on_machine = 1;          // ranks that share this machine's memory
    int gpu = 0;                 // of those that this rank sees
    std::optional<Card> card{};  // that is planned for instead of the one that is here
  };

  DatasetInfo samples{};             // of the training split
  std::vector<std::string> notes{};  // on how the data was read, for people
  ModelDescription architecture{};   // of the model, for the data set's classes
  /// The model on `meta` that the checks have built, for the first setup there, which takes it.
  std::shared_ptr<std::unique_ptr<lacuna::Model>> checked = std::make_shared<std::unique_ptr<lacuna::Model>>();
  std::string weights{};             // file or folder with the initial weights; empty: random ones
  std::optional<MemoryPlan> plan{};  // of the policy `auto`, in force
  Process process{};
  bool image_gradient = false;  // whether a synthetic step computes the gradient of its inputs
};

/// A model that a configuration is read to evaluate, not to train: the data's classes are joined to its own by name,
/// and may be fewer.
struct Evaluated {
  std::vector<std::string> classes{};  // of a checkpoint; empty: those of the folder in model.from
};

/// Reads a file and then `key=value` overrides. Refuses with all problems at once, each with its place in the file.
Experiment read_configuration(const std::filesystem::path& path, std::span<const std::string> overrides);
/// The same for one or more files. A later file replaces single keys of earlier ones, or a whole section if it names
/// the section's model, data set, optimizer, schedule or policy. Configurations that share `opened` read a data set's
/// files once.
Experiment read_configuration(std::span<const std::string> files, std::span<const std::string> overrides,
                              std::shared_ptr<OpenedFiles> opened = std::make_shared<OpenedFiles>(),
                              const Evaluated* evaluated = nullptr);
/// The same from text; `source` names it in messages.
Experiment parse_configuration(const std::string& text, const std::string& source,
                               std::span<const std::string> overrides = {}, const Evaluated* evaluated = nullptr);

}  // namespace lacuna::apps
