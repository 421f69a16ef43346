// A configuration file as structs. Each section has a table of its keys (apps/config/sections.cpp), or consists of
// structs of the library, which have their own tables.
#pragma once

#include "autograd/policies/rules.h"
#include "core/schema.h"
#include "data/dataset.h"
#include "data/mix.h"
#include "data/transforms.h"
#include "models/hyper_parameters.h"
#include "nn/freeze.h"
#include "optim/ema.h"
#include "optim/optimizer.h"
#include "optim/weight_rounding.h"

#include <cstdint>
#include <string>
#include <vector>

namespace lacuna::apps {

/// `options` of a section: the given options of its choice, as an optimizer or a data set.
struct Configuration {
  struct Model {
    std::string name;
    std::string from;
    std::int64_t num_classes = 0;
    std::vector<HyperParameter> options;

    static Fields fields();
  };
  struct Data {
    std::string name = "shapes";
    DatasetOptions source;
    TransformOptions images;
    MixOptions mix;
    std::int64_t repeats = 1;
    std::string sampler = "shuffle";
    std::vector<double> sampler_weights;  // of each class
    std::string broken = "error";
    std::int64_t workers = 1;

    static Fields fields();
  };
  struct Task {
    std::string name = "classification";
    OptionValues options;

    static Fields fields();
  };
  struct Train {
    std::int64_t epochs = 1;
    std::int64_t steps = 0;
    std::int64_t eval_every_steps = 0;
    std::int64_t batch_size = 64;  // 0: auto
    std::int64_t accumulate = 1;
    std::string precision = "f32";
    std::string weights = "f32";
    WeightRounding weight_rounding = WeightRounding::stochastic;
    double init_scale = 65536;
    std::int64_t growth_interval = 2000;
    bool graph = true;
    std::string device = "auto";
    std::int64_t threads = 0;
    std::int64_t seed = 1;
    double clip_norm = 0;
    double clip_parameter_norm = 0;
    double clip_value = 0;
    double ema_decay = 0;
    AverageWarmup ema_warmup = AverageWarmup::tensorflow;
    std::string best_by;
    std::int64_t patience = 0;

    static Fields fields();
  };
  struct Optimizer {
    std::string name = "adamw";
    double lr = 1e-3;
    std::string state = "f32";
    std::string gradients = "f32";
    bool in_backward = false;
    double layer_decay = 1;
    std::vector<GroupRule> groups;
    OptionValues options;

    static Fields fields();
  };
  struct Schedule {
    std::string name = "constant";
    OptionValues options;

    static Fields fields();
  };
  struct Adapter {
    std::string name = "none";
    std::string from;                  // a folder with one
    std::vector<std::string> targets;  // empty: the usual ones of the model
    OptionValues options;

    static Fields fields();
    bool used() const { return name != "none" || !from.empty(); }
  };
  struct Memory {
    std::string policy = "exact";
    OptionValues options;
    std::string budget;
    std::string budget_of = "peak";
    std::vector<std::string> recompute;
    std::vector<HoldRule> rules;
    std::string offload;
    std::string offload_budget;
    std::string offload_buffer = "auto";
    std::string plan_file;  // the key `plan`

    static Fields fields();
  };
  struct Ranks {
    std::string exchange = "exact";
    std::string shard = "none";
    bool sync_batch_norm = false;

    static Fields fields();
  };
  struct Output {
    std::string dir;
    std::int64_t save_every = 1;
    std::int64_t save_every_steps = 0;
    std::int64_t keep = 2;
    bool tensorboard = false;
    std::string weights = "f32";

    static Fields fields();
  };

  Model model;
  Data data;
  Task task;
  Train train;
  Optimizer optimizer;
  Schedule schedule;
  FreezeRules freeze;
  Adapter adapter;
  Memory memory;
  Ranks ranks;
  Output output;
};

/// All keys with their values, defaults included; reads back as the same configuration.
std::string to_yaml(const Configuration& configuration);

}  // namespace lacuna::apps
