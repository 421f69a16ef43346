// lacuna explain: every tensor that backward needs, by block: why, and how it is held.
#include "apps/command.h"
#include "apps/config/configuration_options.h"
#include "apps/config/resolve.h"
#include "apps/output/output.h"
#include "apps/train/crowding.h"
#include "apps/train/freeze_table.h"
#include "apps/train/machine_costs.h"
#include "apps/train/measure.h"
#include "apps/train/planning.h"
#include "apps/train/settle.h"
#include "autograd/policies/adaptive.h"
#include "autograd/tape.h"
#include "core/module_path.h"
#include "core/parallel.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <tuple>
#include <vector>

namespace lacuna::apps {
namespace {

struct ExplainOptions {
  ConfigurationOptions configuration;
  bool all = false;
  Report report;
};

std::string slot_name(const SavedTensorInfo& facts) { return facts.parameter ? "parameter" : facts.name(); }

/// As `linear blocks.0.mlp.fc2 (value)`.
std::string describe_user(const Reader& user) {
  if (user.rematerializes) return fmt::format("to rematerialize {} {}", user.op.text(), user.path.text());
  const std::string_view path = user.path.text();
  return fmt::format("{}{}{} ({})", user.op.text(), path.empty() ? "" : " ", path, lacuna::name_of(user.need));
}

/// As `derive`, `code, 4 bit`, or `code, slope2`.
std::string describe_hold(const Tape::SavedTensorReport& slot) {
  std::string text(lacuna::name_of(slot.hold));
  if (slot.slope)
    text += ", " + hold_text({.how = HoldRule::How::slope});
  else if (slot.bits > 0)
    text += fmt::format(", {} bit", slot.bits);
  if (slot.signs && slot.hold != Hold::sign_mask) text += " + signs";
  return text;
}

/// `layer_norm blocks.1.norm1 (value)` as `layer_norm blocks.*.norm1 (value)`.
std::string with_any_number_in_words(const std::string& text) {
  std::string out;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(' ', begin), text.size());
    out += (begin == 0 ? "" : " ") + with_any_number(std::string_view(text).substr(begin, end - begin));
    begin = end + 1;
  }
  return out;
}

/// A saved tensor, or several of a module that differ in number alone.
struct Row {
  std::string module, tensor, shape, held, why{};
  std::int64_t bytes = 0, count = 1;

  auto alike() const { return std::tie(module, tensor, shape, held, bytes, count); }
};

/// The tensors of a block, or of several blocks whose tensors are alike.
struct Group {
  std::string name;
  std::vector<Row> rows;
  std::int64_t count = 1;

  std::int64_t bytes() const {
    std::int64_t sum = 0;
    for (const Row& row : rows) sum += row.count * row.bytes;
    return sum;
  }
};

/// Modules with a number for a name that hold further modules: `blocks.3`, `layer1.0`.
std::set<std::string, std::less<>> blocks_among(const std::vector<Tape::SavedTensorReport>& slots) {
  std::set<std::string, std::less<>> blocks;
  for (const Tape::SavedTensorReport& slot : slots) {
    const std::string_view path = slot.info.path.text();
    for (std::size_t dot = path.find('.'); dot != std::string_view::npos; dot = path.find('.', dot + 1))
      if (path[dot - 1] >= '0' && path[dot - 1] <= '9' && with_any_number(path.substr(0, dot)).ends_with('*'))
        blocks.emplace(path.substr(0, dot));
  }
  return blocks;
}

/// The innermost block that `path` lies in; of a module in no block its first name.
std::string block_of(std::string_view path, const std::set<std::string, std::less<>>& blocks) {
  for (std::size_t end = path.size(); end != std::string_view::npos && end > 0; end = path.rfind('.', end - 1))
    if (blocks.contains(path.substr(0, end))) return std::string(path.substr(0, end));
  return std::string(path.substr(0, path.find('.')));
}

/// Tensors by block, the largest first; alike blocks, and alike tensors of a module, as one.
std::vector<Group> by_block(const std::vector<Tape::SavedTensorReport>& slots, bool with_parameters) {
  const std::set<std::string, std::less<>> blocks = blocks_among(slots);
  std::vector<Group> groups;
  for (const Tape::SavedTensorReport& slot : slots) {
    const SavedTensorInfo& info = slot.info;
    if (info.parameter && !with_parameters) continue;
    const std::string_view path = info.path.text();
    const std::string block = block_of(path, blocks);
    const auto found = std::ranges::find(groups, block, &Group::name);
    Group& group = found == groups.end() ? groups.emplace_back(Group{.name = block, .rows = {}}) : *found;
    Row row{.module = std::string(path.substr(std::min(block.size() + 1, path.size()))),
            .tensor = slot_name(info),
            .shape = to_string(info.shape),
            .held = describe_hold(slot),
            .bytes = slot.bytes};
    if (const std::size_t number = row.tensor.rfind(" statistic "); number != std::string::npos)
      row.tensor.resize(number + std::string_view(" statistic").size());
    for (const Reader& reader : slot.readers) row.why += (row.why.empty() ? "" : "; ") + describe_user(reader);
    const auto same = std::ranges::find_if(group.rows, [&](const Row& other) {
      return other.module == row.module && other.tensor == row.tensor && other.shape == row.shape &&
             other.held == row.held && other.bytes == row.bytes && other.why == row.why;
    });
    if (same == group.rows.end())
      group.rows.push_back(std::move(row));
    else
      ++same->count;
  }
  std::vector<Group> folded;
  for (Group& group : groups) {
    const auto same = std::ranges::find_if(folded, [&](const Group& other) {
      return with_any_number(other.name) == with_any_number(group.name) &&
             std::ranges::equal(other.rows, group.rows,
                                [](const Row& a, const Row& b) { return a.alike() == b.alike(); });
    });
    if (same == folded.end())
      folded.push_back(std::move(group));
    else
      ++same->count;
  }
  for (Group& group : folded) {
    std::ranges::stable_sort(group.rows, std::greater{}, [](const Row& row) { return row.count * row.bytes; });
    if (group.count == 1) continue;
    group.name = with_any_number(group.name);
    for (Row& row : group.rows) row.why = with_any_number_in_words(row.why);
  }
  std::ranges::stable_sort(folded, std::greater{}, [](const Group& group) { return group.count * group.bytes(); });
  return folded;
}

std::string times(std::int64_t count, std::int64_t bytes) {
  return count == 1 ? format_bytes(bytes) : fmt::format("{} × {}", count, format_bytes(bytes));
}

/// `×` takes two bytes and one column.
std::string right(const std::string& text, std::size_t width) {
  const auto columns = static_cast<std::size_t>(
      std::ranges::count_if(text, [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }));
  return std::string(width - std::min(width, columns), ' ') + text;
}

std::string to_text(const std::vector<Group>& groups, std::int64_t total) {
  std::size_t module = 6, tensor = 6, shape = 5, held = 4;
  for (const Group& group : groups)
    for (const Row& row : group.rows) {
      module = std::max(module, row.module.size());
      tensor = std::max(tensor, row.tensor.size());
      shape = std::max(shape, row.shape.size());
      held = std::max(held, row.held.size());
    }
  constexpr std::size_t bytes = 15;
  const auto line = [&](const Row& row, const std::string& size) {
    return fmt::format("  {:<{}}  {:<{}}  {:<{}}{}  {:<{}}  {}\n", row.module, module, row.tensor, tensor, row.shape,
                       shape, right(size, bytes), row.held, held, row.why);
  };
  std::string text = line({"module", "tensor", "shape", "held", "read in backward by"}, "bytes");
  for (const Group& group : groups) {
    const std::int64_t all = group.count * group.bytes();
    text += fmt::format("{}: {}{}, {:.1f} %\n", group.name.empty() ? "the model itself" : group.name,
                        group.count > 1 ? times(group.count, group.bytes()) + " = " : "", format_bytes(all),
                        total > 0 ? 100.0 * static_cast<double>(all) / static_cast<double>(total) : 0.0);
    for (const Row& row : group.rows) text += line(row, times(row.count, row.bytes));
  }
  return text;
}

ExitCode explain(const ExplainOptions& options) {
  Experiment experiment = settled(options.configuration.parse());
  const ThreadCountScope threads(static_cast<int>(experiment.train.threads));
  if (experiment.memory.policy == "auto" && available_device(experiment) != Device::meta) warn_if_crowded();
  plan_memory(experiment, machine_costs());
  Setup setup(experiment, Device::meta);
  const PlannedDeviceScope planned = planned_device(experiment);
  const auto made_up = [&] { return example(experiment, setup); };
  // Adaptive policies choose bits after one step; with no trainable parameters there is nothing to choose.
  const bool trains = setup.trainable_count() > 0 || experiment.image_gradient;
  if (trains && adaptive_of(setup.policy()) != nullptr) setup.trainer().step(made_up(), 0, experiment.optimizer.lr);
  std::vector<Batch> batch = made_up();
  if (trains)
    setup.trainer().calibrate(batch.front(), setup.policy());  // as a step does, where it is one that measures
  Tape tape(setup.policy());
  const Variable loss = [&] {
    const Recording recording(tape);
    return setup.trainer().loss(batch.size() == 1 ? std::move(batch[0]) : batch[0]);
  }();
  if (!loss.requires_grad()) reject("freeze: nothing is trained, so backward needs nothing");

  nlohmann::ordered_json slots = nlohmann::ordered_json::array();
  std::int64_t total = 0;
  const std::vector<Tape::SavedTensorReport> report = tape.report();
  for (const Tape::SavedTensorReport& slot : report) {
    const SavedTensorInfo& facts = slot.info;
    total += slot.bytes;
    nlohmann::ordered_json users = nlohmann::ordered_json::array();
    for (const Reader& user : slot.readers)
      users.push_back({{"op", user.op.text()},
                       {"path", user.path.text()},
                       {"need", lacuna::name_of(user.need)},
                       {"derives", user.rematerializes}});
    slots.push_back({{"path", facts.path.text()},
                     {"op", facts.parameter ? "parameter" : facts.maker()},
                     {"slot", slot_name(facts)},
                     {"shape", std::vector<std::int64_t>(facts.shape.begin(), facts.shape.end())},
                     {"dtype", lacuna::name_of(facts.dtype)},
                     {"bytes", slot.bytes},
                     {"need", lacuna::name_of(facts.need)},
                     {"held", facts.parameter ? "parameter" : lacuna::name_of(slot.hold)},
                     {"bits", slot.bits > 0 ? nlohmann::ordered_json(slot.bits) : nullptr},
                     {"slope", slot.slope},
                     {"signs", slot.signs},
                     {"users", users}});
  }
  ledger(Device::meta).reset_peak();
  tape.backward(loss);  // regions within regions open while it runs
  const Bytes backward = ledger(Device::meta).highest();
  refuse_unmatched(setup.policy());
  const std::int64_t batch_size = experiment.train.batch_size, parts = experiment.train.accumulate;
  std::string text =
      fmt::format("{}, batch {}{}, memory policy {}: {} saved for backward\n\n", experiment.model.name, batch_size,
                  parts > 1 ? fmt::format(" in {} parts", parts) : "", setup.policy().name(), format_bytes(total));
  text += to_text(by_block(report, options.all), total) + "\n";
  if (experiment.plan) text += experiment.plan->text + "\n";
  if (adaptive_of(setup.policy()) != nullptr)
    text += "The bits are chosen by size here; a run measures sensitivities and moves bits between tensors.\n";
  text += fmt::format(
      "In backward, temporary tensors take up to {} more, and scratch memory of kernels up to {}.\n"
      "keep: the tensor itself. rematerialize: computed again from kept tensors. quantize: in a few bits an element. "
      "sign mask: one bit an element.\n"
      "(value): the reader takes an approximation too. (exact): it does not. (sign): it needs the signs alone.\n",
      format_bytes(at(backward, Purpose::transient)), format_bytes(at(backward, Purpose::workspace)));
  const std::vector<FreezeRow> frozen = freeze_table(setup, experiment);
  if (!frozen.empty()) text += "\n" + to_text(frozen);
  options.report.write(
      text,
      {{"model", experiment.model.name},
       {"batch_size", batch_size},
       {"accumulate", parts},
       {"policy", setup.policy().name()},
       {"saved", total},
       {"backward", {{"transient", at(backward, Purpose::transient)}, {"workspace", at(backward, Purpose::workspace)}}},
       {"freeze", to_json(frozen)},
       {"slots", slots}});
  return 0;
}

const RegisterCommand explain_command(
    50, "explain", "list the tensors that are saved for backward, and why", [](CLI::App& app) {
      const auto options = std::make_shared<ExplainOptions>();
      options->configuration.declare(app, true);
      app.add_flag("--all", options->all, "list parameters too: backward reads them, and they cost nothing more");
      options->configuration.declare_image_gradient(app);
      options->report.declare(app);
      return std::function<ExitCode()>([options] { return explain(*options); });
    });

}  // namespace
}  // namespace lacuna::apps
