// What a configuration file says, typed. The meaning of each key stands in the table of schema.cpp.
#pragma once

#include "autograd/plan/memory_plan.h"
#include "autograd/policies/rules.h"
#include "core/schema.h"
#include "data/augment/options.h"
#include "models/hyper_parameters.h"
#include "nn/freeze.h"
#include "optim/optimizer.h"

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <vector>

namespace lacuna::apps {

struct Configuration {
  struct Model {
    std::string name;
    std::string from;
    std::int64_t num_classes = 0;
    std::vector<HyperParameter> options;  // the model's family knows which there are
  };
  struct Data : AugmentOptions {
    std::string name = "shapes";
    std::string path;
    std::int64_t image_size = 0;
    std::vector<double> length;  // of sequences, in tokens; empty: the data set's own
    std::int64_t vocabulary = 0;
    std::int64_t classes = 0;
    std::vector<double> mean, std;  // of each channel; empty: the data set's own
    std::string interpolation = "bilinear";
    double crop_pct = 1;
    std::string crop_mode = "center";
    std::string augment = "none";
    std::int64_t crop_padding = 4;
    std::vector<double> scale{0.08, 1}, ratio{0.75, 4 / 3.0};
    double hflip = 0.5;
    std::string decode = "exact";
    std::string exif = "ignore";
    std::string broken = "error";
    std::int64_t repeats = 1;
    double mixup = 0;   // alpha; 0: none
    double cutmix = 0;  // the same
    std::vector<double> cutmix_minmax;
    double mixup_probability = 1;
    double mixup_switch = 0.5;
    std::string mixup_mode = "batch";
    std::int64_t mixup_off_epoch = 0;
    std::string sampler = "shuffle";
    std::vector<double> sampler_weights;  // of each class
    std::int64_t workers = 1;
    std::int64_t seed = 1;
    std::int64_t train_size = 0;
    std::int64_t val_size = 0;
    OptionValues options;  // the data set knows which there are
  };
  struct Train {
    std::int64_t epochs = 1;
    std::int64_t steps = 0;
    std::int64_t eval_every_steps = 0;
    std::int64_t batch_size = 64;
    std::int64_t accumulate = 1;
    std::string precision = "f32";
    double init_scale = 65536;  // of the loss, in f16
    std::int64_t growth_interval = 2000;
    bool graph = true;
    std::string device = "auto";
    std::int64_t threads = 0;
    std::int64_t seed = 1;
    double clip_norm = 0;
    double clip_parameter_norm = 0;
    double clip_value = 0;
    double ema_decay = 0;
    std::string ema_warmup = "tensorflow";
    std::string best_by;
    std::int64_t patience = 0;
  };
  struct Task {
    std::string name = "classification";
    OptionValues options;  // the task knows which there are
  };
  struct Optimizer {
    std::string name = "adamw";
    double lr = 1e-3;
    std::string state = "f32";
    std::string gradients = "f32";
    bool in_backward = false;
    double layer_decay = 1;
    std::vector<GroupRule> groups;
    OptionValues options;  // the optimizer knows which there are
  };
  struct Schedule {
    std::string name = "constant";
    OptionValues options;  // the schedule knows which there are
  };
  struct Adapter {
    std::string name = "none";
    std::string from;                  // a folder with one
    std::vector<std::string> targets;  // empty: all linear layers
    OptionValues options;              // the adapter knows which there are
    bool used() const { return name != "none" || !from.empty(); }
  };
  struct Memory {
    std::string policy = "exact";
    OptionValues options;            // the policy knows which there are
    std::string budget;              // of `auto`
    std::string budget_of = "peak";  // what the budget counts
    std::vector<std::string> recompute;
    std::vector<HoldRule> rules;
    std::string offload;                    // folder of the file that saved tensors are offloaded to; empty: none are
    std::string offload_budget;             // of that file
    std::string offload_buffer = "256MiB";  // between memory and the file
    std::string plan_file;           // the key `plan`, of `auto`: a plan to replay, in place of one for the budget
    std::optional<MemoryPlan> plan;  // of `auto`, in force; never written into the configuration file
  };
  /// Of a run in several processes.
  struct Ranks {
    std::string exchange = "exact";  // what travels of gradients
    std::string shard = "none";      // what each rank holds a part of
    bool sync_batch_norm = false;
    // From the launcher, not part of the file.
    int rank = 0, count = 1;
    int on_machine = 1;  // of them, that share this machine's memory
    int index_on_machine = 0;
  };
  struct Output {
    std::string dir;
    std::int64_t save_every = 1;
    std::int64_t save_every_steps = 0;
    std::int64_t keep = 2;
    bool tensorboard = false;
  };

  Model model;
  Data data;
  Train train;
  Task task;
  Optimizer optimizer;
  Schedule schedule;
  FreezeRules freeze;
  Adapter adapter;
  Memory memory;
  Ranks ranks;
  Output output;
  /// The sections, in their usual order.
  auto parts() {
    return std::tie(model, data, task, train, optimizer, schedule, freeze, adapter, memory, ranks, output);
  }
  /// Whether the inputs of a made-up step gather a gradient: from the command line, not part of the file.
  bool image_gradient = false;
};

/// Reads a file and then `key=value` overrides. Refuses with all problems at once, each with its place in the file.
Configuration read_configuration(const std::filesystem::path& path, std::span<const std::string> overrides);
/// The same of several files, one at least, of which a later one replaces what it says anew: single keys, or a whole
/// section where it names that section's model, data set, optimizer, schedule or policy.
Configuration read_configuration(std::span<const std::string> files, std::span<const std::string> overrides);
/// The same from text; `source` names it in messages.
Configuration parse_configuration(const std::string& text, const std::string& source,
                                  std::span<const std::string> overrides = {});

/// All of it, defaults included: read again it gives the same configuration.
std::string to_yaml(const Configuration& configuration);

}  // namespace lacuna::apps
