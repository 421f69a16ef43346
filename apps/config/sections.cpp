// The keys of a configuration's sections. Options of the library (data sets, transforms, mixing, rules) have their
// tables in its own files.
#include "apps/config/configuration.h"
#include "autograd/policy.h"
#include "data/dataset.h"
#include "models/task.h"
#include "nn/adapter.h"
#include "optim/optimizer.h"
#include "optim/schedule.h"

#include <algorithm>

namespace lacuna::apps {
namespace {

template <auto registry>
Names registered() {
  return registry().names();
}

Names adapter_names() {
  Names names = registered<nn::adapters>();
  names.insert(names.begin(), "none");
  return names;
}
Names devices() { return {"auto", "cpu", "cuda", "meta"}; }
bool is_device(std::string_view text) { return device_named(text).has_value(); }

/// A whole number, or `auto`, which is 0.
Field or_auto(Field field) {
  static const Codec& number = codec_of<std::int64_t>();
  static const Codec codec{
      [](const Tree& from, void* value, const Limits& limits, std::string_view key, Problems& problems) {
        if (from.kind != Tree::Kind::scalar || from.text != "auto") {
          const std::string expected = number.read(from, value, limits, key, problems);
          return expected.empty() ? expected : expected + " or auto";
        }
        *static_cast<std::int64_t*>(value) = 0;
        return std::string();
      },
      [](const void* value) {
        return *static_cast<const std::int64_t*>(value) == 0 ? Tree("auto") : number.write(value);
      },
      [](const Limits& limits) { return number.type(limits) + ", or auto"; }};
  field.codec = &codec;
  return field;
}

constexpr double most_samples = 1 << 25;  // products of two such counts and an image's size do not overflow

}  // namespace

Fields Configuration::Model::fields() {
  return {field("name", &Model::name, "a preset or family that `lacuna models` lists"),
          field("from", &Model::from, is_path,
                "initial weights: a folder of timm or transformers, whose config.json describes the model, a "
                "`.safetensors` file, an index of shards, or a checkpoint of a run"),
          field("num_classes", &Model::num_classes, "outputs of the head; 0: the data set's number of classes")};
}

Fields Configuration::Data::fields() {
  return Fields{field("name", &Data::name, one_of(registered<dataset_kinds>), "data set")} + rows_of(&Data::source) +
         rows_of(&Data::images) + rows_of(&Data::mix) +
         Fields{field("repeats", &Data::repeats, between(1, 64), augments,
                      "repeated augmentation: copies of each image in a row, augmented independently; an epoch keeps "
                      "its length"),
                field("sampler", &Data::sampler, one_of({"shuffle", "balanced", "weighted"}), training_only,
                      "order of training samples: each once, or drawn with replacement, all classes equally often or "
                      "by `sampler_weights`"),
                field("sampler_weights", &Data::sampler_weights, up_to(1e9), training_only,
                      "weighted: sampling weight per class, as `[1, 5]`"),
                field("broken", &Data::broken, one_of({"error", "skip"}),
                      "damaged image files: `skip` replaces them by another of the class in training, leaves them out "
                      "of evaluations, and lists them"),
                field("workers", &Data::workers, between(1, 256), "threads that prefetch batches")};
}

Fields Configuration::Task::fields() {
  return {field("name", &Task::name, one_of(registered<tasks>), "losses and metrics")};
}

Fields Configuration::Train::fields() {
  const OnlyIf with_f16{"precision", {"f16"}}, averages{"ema_decay", {}}, in_bf16{"weights", {"bf16"}};
  return {
      field("epochs", &Train::epochs, between(1, 1e9), training_only, "epochs"),
      field("steps", &Train::steps, training_only, "stop after this many optimizer steps; 0: after `epochs`"),
      field("eval_every_steps", &Train::eval_every_steps, training_only,
            "steps between evaluations within an epoch; 0: only at its end"),
      or_auto(
          field("batch_size", &Train::batch_size, between(1, most_samples),
                "samples per optimizer step; `auto`: the largest batch that fits into the device or, without codes, "
                "into the budget, at most 1024 and an eighth of the training samples")),
      field("accumulate", &Train::accumulate, between(1, 65536), training_only,
            "gradient accumulation: micro-batches per step"),
      field("precision", &Train::precision, one_of({"f32", "bf16", "f16", "tf32"}),
            "type of activations; `weights` is that of parameters. `f16` and `tf32` (f32 with matrix products of "
            "10-bit mantissas) "
            "need cuda"),
      field("weights", &Train::weights, one_of({"f32", "bf16"}), training_only,
            "type of trained weights of linear layers, convolutions and embeddings from 4,096 elements on; all other "
            "trained parameters are f32; see [optimizers.md](optimizers.md)"),
      field("weight_rounding", &Train::weight_rounding, training_only, in_bf16,
            "how updates of weights in bf16 are rounded: stochastic, or kahan: to nearest, with what that loses in the "
            "optimizer's state (2 bytes a weight)"),
      field("init_scale", &Train::init_scale, between(1, 1e9), training_only, with_f16,
            "initial loss scale, like torch.amp.GradScaler's"),
      field("growth_interval", &Train::growth_interval, between(1, 1e9), training_only, with_f16,
            "steps with finite gradients after which the loss scale doubles; a step with non-finite gradients is "
            "skipped and halves it"),
      field("graph", &Train::graph, training_only,
            "cuda: capture a step as a CUDA graph and replay it. Its memory stays reserved between steps"),
      field("device", &Train::device, one_of(devices, is_device),
            "device of the model: `cuda` is the first GPU, `cuda:1` the second; `auto` takes the first GPU if there is "
            "one"),
      field("threads", &Train::threads, up_to(4096),
            "compute threads; 0: OMP_NUM_THREADS, or all cores. A number above the process's CPU affinity gives a "
            "warning"),
      field("seed", &Train::seed, "seed of initial weights, shuffling, augmentation and dropout"),
      field("clip_norm", &Train::clip_norm, training_only, "clip the global gradient norm; 0: off"),
      field("clip_parameter_norm", &Train::clip_parameter_norm, training_only,
            "clip the gradient norm of each parameter; 0: off"),
      field("clip_value", &Train::clip_value, training_only, "clip each gradient element to ±this; 0: off"),
      field("ema_decay", &Train::ema_decay, below(1), training_only,
            "decay of an exponential moving average of the weights, which is then evaluated, as 0.9999; 0: none"),
      field("ema_warmup", &Train::ema_warmup, training_only, averages,
            "warm-up of the decay: none, at most (1 + steps) / (10 + steps), or at most 1 − (1 + steps)^(−2/3)"),
      field("best_by", &Train::best_by, training_only,
            "metric that picks the best checkpoint: `loss`, or one of the task, as `accuracy`; empty: the task's "
            "first"),
      field("patience", &Train::patience, up_to(1e9), training_only,
            "early stopping: epochs without improvement; 0: off")};
}

Fields Configuration::Optimizer::fields() {
  return {field("name", &Optimizer::name, one_of(registered<optimizers>), "optimizer"),
          field("lr", &Optimizer::lr, "peak learning rate"),
          field("state", &Optimizer::state, one_of({"f32", "bf16", "int8"}),
                "type of the optimizer state; int8: in blocks of 256 with a range each"),
          field("gradients", &Optimizer::gradients, one_of({"f32", "bf16"}), "type of parameter gradients"),
          field("in_backward", &Optimizer::in_backward,
                "update each parameter during backward, as soon as its gradient is complete, and release the gradient; "
                "see [optimizers.md](optimizers.md)"),
          field("layer_decay", &Optimizer::layer_decay, up_to(1),
                "layer-wise learning-rate decay: factor from each layer to the one before; 1: off"),
          field("groups", &Optimizer::groups,
                "parameter groups with a learning rate or weight decay of their own: `{match: \"head*\", lr_scale: 10, "
                "weight_decay: 0}`")};
}

Fields Configuration::Schedule::fields() {
  return {field("name", &Schedule::name, one_of(registered<schedules>), "learning-rate schedule")};
}

Fields Configuration::Adapter::fields() {
  return {field("name", &Adapter::name, one_of(adapter_names),
                "low-rank adapter for each frozen linear layer; the head and `freeze.train` are trained, too"),
          field("from", &Adapter::from, is_path,
                "initial adapter, which sets kind, rank, scale and layers: a PEFT folder, or a checkpoint of a run"),
          field("targets", &Adapter::targets,
                "layers with an adapter: names or their ends, as `qkv`, or patterns; `all-linear`: all linear ones but "
                "the head; empty: PEFT's for the type of the model, or `all-linear` where it has none")};
}

Fields Configuration::Memory::fields() {
  const OnlyIf with_auto{"policy", {"auto"}}, offloads{"offload", {}};
  return {
      field("policy", &Memory::policy, one_of(registered<memory_policies>), "how tensors are saved for backward"),
      field("budget", &Memory::budget, with_auto,
            "memory for the tensors of a training step, as `6GiB` (without a unit: bytes, at least 4096); code, "
            "stacks and libraries come on top. `device`: the memory of the GPU, less what its driver and libraries "
            "take; the default of `auto` on one"),
      field("budget_of", &Memory::budget_of, one_of({"peak", "saved", "process"}), with_auto,
            "the budget limits the peak of all tensors, the tensors saved for backward, or the memory of the whole "
            "process"),
      field("plan", &Memory::plan_file, is_path, with_auto,
            "a plan.json to follow, as in a run folder; empty: plan for the budget"),
      field("recompute", &Memory::recompute, "patterns on the paths of blocks to recompute in backward: `blocks.*`"),
      field("rules", &Memory::rules, "overrides of the policy for single tensors; see [memory.md](memory.md)"),
      field("offload", &Memory::offload, is_path,
            "folder of a file that holds saved tensors between forward and backward; with train.device=cuda "
            "`host`, for host memory; empty: off. `auto` chooses the tensors, other policies offload all"),
      field("offload_budget", &Memory::offload_budget, offloads,
            "size of that file or of the host memory, as `100GiB`; empty: all but the last GiB"),
      field(
          "offload_buffer", &Memory::offload_buffer, offloads,
          "staging memory for offloaded tensors, as `64MiB`; a larger buffer prefetches further. `auto`: an eighth of "
          "what a step saves, at most 256 MiB")};
}

Fields Configuration::Ranks::fields() {
  return {field("exchange", &Ranks::exchange, one_of({"exact", "bf16", "int8"}),
                "gradient all-reduce format: exact, bf16, int8 (with error feedback)"),
          field("shard", &Ranks::shard, one_of({"none", "optimizer", "gradients"}),
                "shard the optimizer state and the weight average over processes; `gradients`: gradients, too"),
          field("sync_batch_norm", &Ranks::sync_batch_norm, "synchronize batch-norm statistics over processes")};
}

Fields Configuration::Output::fields() {
  return {field("dir", &Output::dir, is_path,
                "run folder; empty: `runs/` and the name of the configuration file, or of all, as `a_b`"),
          field("save_every", &Output::save_every, "epochs between checkpoints; 0: only the best and the last"),
          field("save_every_steps", &Output::save_every_steps, "steps between further checkpoints; 0: none"),
          field("keep", &Output::keep, between(2, std::numeric_limits<double>::infinity()),
                "latest checkpoints to keep, besides the best; at least two, in case one is damaged"),
          field("weights", &Output::weights, one_of({"f32", "bf16"}),
                "type of the weights in checkpoints; with bf16 the rest of their bits, which --resume needs, is in a "
                "file of its own"),
          field("tensorboard", &Output::tensorboard, "write TensorBoard event files beside metrics.jsonl")};
}

}  // namespace lacuna::apps
