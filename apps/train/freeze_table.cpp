#include "apps/train/freeze_table.h"

#include "apps/config/resolve.h"
#include "apps/train/measure.h"
#include "apps/train/setup.h"
#include "autograd/op_mode.h"
#include "autograd/policies/adaptive.h"
#include "autograd/tape.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

namespace lacuna::apps {
namespace {

/// The inputs of ops that no gradient of a parameter needs, because the parameter is frozen.
class UnneededInputs final : public OpMode {
 public:
  struct Input {
    std::string path;  // of the layer
    std::uint64_t storage;
    std::int64_t bytes;
  };

  void after(const Operation& op, const std::vector<Variable>& inputs, const std::vector<Variable>&,
             const std::vector<Tensor>&) override {
    InputSet wanted, frozen;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (inputs[i].requires_grad()) wanted.insert(static_cast<int>(i));
      if (!inputs[i].requires_grad() && inputs[i].defined() && is_parameter(inputs[i]))
        frozen.insert(static_cast<int>(i));
    }
    for (const Save& row : op.saves()) {
      if (row.from.kind != Source::Kind::input || !inputs[row.from.index].defined()) continue;
      const Variable& read = inputs[row.from.index];
      if (is_parameter(read)) continue;
      const Tensor& tensor = read.tensor();
      if (row.for_grad_of.intersects(wanted))
        needed_.insert(tensor.storage()->id());
      else if (row.for_grad_of.intersects(frozen))
        unneeded_.push_back(
            {std::string(AllocationScope::current().path.text()), tensor.storage()->id(), tensor.bytes()});
    }
  }
  const std::vector<Input>& inputs() const { return unneeded_; }
  /// Whether another op reads it in backward.
  bool is_needed(const Input& input) const { return needed_.contains(input.storage); }

 private:
  static bool is_parameter(const Variable& variable) {
    return variable.tensor().storage()->owner().purpose == Purpose::parameters;
  }
  std::set<std::uint64_t> needed_;
  std::vector<Input> unneeded_;
};

/// Parts of a model by path: its blocks, its heads, and what lies beside them.
class Parts {
 public:
  explicit Parts(const Model& model) : heads_(model.heads()) {
    for (const Module* const module : model.modules())
      if (module->role() == Role::block) blocks_.push_back(module->path());
  }
  std::string part_of(std::string_view path) const {
    for (const std::vector<std::string>* const known : {&blocks_, &heads_})
      for (const std::string& one : *known)
        if (path == one || belongs_to(path, one)) return one;
    for (std::size_t end = path.find('.'); end != std::string_view::npos; end = path.find('.', end + 1))
      if (!holds_blocks(path.substr(0, end))) return std::string(path.substr(0, end));
    return std::string(path);
  }
  bool is_block(std::string_view part) const { return std::ranges::find(blocks_, part) != blocks_.end(); }

 private:
  bool holds_blocks(std::string_view path) const {
    return std::ranges::any_of(blocks_, [&](const std::string& block) { return belongs_to(block, path); });
  }
  std::vector<std::string> blocks_, heads_;  // paths
};

std::string_view without_number(std::string_view block) { return block.substr(0, block.rfind('.') + 1); }

void add_to(std::vector<std::string>& names, const std::string& name) {
  if (std::ranges::find(names, name) == names.end()) names.push_back(name);
}

/// Blocks in a row that are trained alike become one row.
std::vector<FreezeRow> folded(const std::vector<FreezeRow>& rows, const Parts& parts) {
  std::vector<FreezeRow> merged;
  std::string first, last;  // blocks of the last merged row
  for (const FreezeRow& row : rows) {
    const bool is_block = parts.is_block(row.layers);
    FreezeRow* const before = merged.empty() ? nullptr : &merged.back();
    if (is_block && !last.empty() && without_number(last) == without_number(row.layers) &&
        (before->trained > 0) == (row.trained > 0) && (before->frozen > 0) == (row.frozen > 0) &&
        before->without_input == row.without_input) {
      before->trained += row.trained;
      before->frozen += row.frozen;
      before->saved += row.saved;
      before->inputs += row.inputs;
      last = row.layers;
      before->layers = fmt::format("{}-{}", first, last.substr(without_number(last).size()));
    } else {
      merged.push_back(row);
      first = last = is_block ? row.layers : "";
    }
  }
  return merged;
}

}  // namespace

std::vector<FreezeRow> freeze_table(Setup& setup, const Experiment& experiment) {
  const PlannedDeviceScope planned = planned_device(experiment);
  Model& model = setup.model();
  if (setup.trainable_count() == model.parameter_count()) return {};
  const bool trains = setup.trainable_count() > 0 || experiment.image_gradient;
  model.set_training(true);
  // Adaptive policies choose bits after one step.
  if (trains && adaptive_of(setup.policy()) != nullptr)
    setup.trainer().step(example(experiment, setup), 0, experiment.optimizer.lr);
  std::vector<Batch> batch = example(experiment, setup);
  Tape tape(setup.policy());
  UnneededInputs uses;
  const Variable loss = [&] {
    const Recording recording(tape);
    return setup.trainer().loss(batch.size() == 1 ? std::move(batch[0]) : batch[0]);
  }();

  const Parts parts(model);
  std::vector<FreezeRow> rows;
  const auto row_of = [&](std::string_view path) -> FreezeRow& {
    const std::string part = parts.part_of(path);
    const auto found = std::ranges::find(rows, part, &FreezeRow::layers);
    if (found != rows.end()) return *found;
    rows.emplace_back().layers = part;
    return rows.back();
  };
  for (const Parameter* const parameter : model.parameters()) {
    FreezeRow& row = row_of(parameter->path());
    (parameter->trainable() ? row.trained : row.frozen) += parameter->tensor().count();
  }
  for (const Tape::SavedTensorReport& slot : tape.report())
    if (!slot.info.parameter) row_of(slot.info.path.text()).saved += slot.bytes;
  std::set<std::uint64_t> counted;
  for (const UnneededInputs::Input& input : uses.inputs()) {
    FreezeRow& row = row_of(input.path);
    const bool within = belongs_to(input.path, row.layers);
    add_to(row.without_input, within ? input.path.substr(row.layers.size() + 1) : input.path);
    if (!uses.is_needed(input) && counted.insert(input.storage).second) row.inputs += input.bytes;
  }
  // Inputs and sums beside the layers are one row.
  FreezeRow rest{.layers = "beside the layers"};
  std::erase_if(rows, [&](const FreezeRow& row) {
    if (row.trained + row.frozen > 0) return false;
    rest.saved += row.saved;
    return true;
  });
  if (rest.saved > 0) rows.push_back(rest);
  return folded(rows, parts);
}

std::string to_text(const std::vector<FreezeRow>& rows) {
  if (rows.empty()) return {};
  std::size_t width = 6;
  for (const FreezeRow& row : rows) width = std::max(width, row.layers.size());
  std::string text = fmt::format("{:<{}}  {:>12}  {:>12}  {:>10}  frozen: input not saved\n", "layers", width,
                                 "trained", "frozen", "saved");
  for (const FreezeRow& row : rows) {
    std::string without = fmt::format("{}", fmt::join(row.without_input, " "));
    constexpr std::size_t most = 60;
    if (without.size() > most) without = fmt::format("{} layers", row.without_input.size());
    if (row.inputs > 0) without += fmt::format(": {} not saved", format_bytes(row.inputs));
    text += fmt::format("{:<{}}  {:>12}  {:>12}  {:>10}  {}\n", row.layers, width, row.trained, row.frozen,
                        format_bytes(row.saved), without);
    while (text[text.size() - 2] == ' ') text.erase(text.size() - 2, 1);
  }
  return text;
}

nlohmann::ordered_json to_json(const std::vector<FreezeRow>& rows) {
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  for (const FreezeRow& row : rows)
    json.push_back({{"layers", row.layers},
                    {"trained", row.trained},
                    {"frozen", row.frozen},
                    {"saved", row.saved},
                    {"without_input", row.without_input},
                    {"inputs", row.inputs}});
  return json;
}

}  // namespace lacuna::apps
