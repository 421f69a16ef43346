// lacuna explain: every tensor that backward needs, why, and how it is held.
#include "apps/command.h"
#include "apps/config/configuration_options.h"
#include "apps/output.h"
#include "apps/train/measure.h"
#include "apps/train/planning.h"
#include "autograd/policies/adaptive.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <array>
#include <memory>
#include <nlohmann/json.hpp>

namespace lacuna::apps {
namespace {

struct Options {
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

/// Columns as wide as what stands in them, the bytes to the right.
std::string to_text(const std::vector<std::array<std::string, 6>>& rows) {
  constexpr std::size_t bytes = 3;
  std::array<std::size_t, 6> widths{};
  for (const auto& row : rows)
    for (std::size_t i = 0; i + 1 < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  std::string text;
  for (const auto& row : rows) {
    for (std::size_t i = 0; i + 1 < row.size(); ++i)
      text += i == bytes ? fmt::format("{:>{}}  ", row[i], widths[i]) : fmt::format("{:<{}}  ", row[i], widths[i]);
    text += row.back() + "\n";
  }
  return text;
}

ExitCode explain(const Options& options) {
  Configuration configuration = options.configuration.read();
  plan_memory(configuration);
  Training training(configuration, Device::meta);
  const auto made_up = [&] { return made_up_batch(configuration, training); };
  // What adapts has its plan after a step; where nothing is trained there is none.
  const bool trains = training.trainable_count() > 0 || configuration.image_gradient;
  if (trains && adaptive_of(training.policy()) != nullptr) training.step(made_up(), 0, configuration.optimizer.lr);
  std::vector<Batch> batch = made_up();
  if (trains)
    training.task_step().calibrate(batch.front(), training.policy());  // as a step does, where it is one that measures
  Tape tape(training.policy());
  const Variable loss = [&] {
    const Recording recording(tape);
    return training.task_step().loss(batch.size() == 1 ? std::move(batch[0]) : batch[0]);
  }();
  if (!loss.requires_grad()) reject("freeze: nothing is trained, so backward needs nothing");

  std::vector<std::array<std::string, 6>> rows{{"path", "slot", "shape", "bytes", "held", "why"}};
  nlohmann::ordered_json slots = nlohmann::ordered_json::array();
  std::int64_t total = 0;
  for (const Tape::SavedTensorReport& slot : tape.report()) {
    const SavedTensorInfo& facts = slot.info;
    total += slot.bytes;
    nlohmann::ordered_json users = nlohmann::ordered_json::array();
    std::string why;
    for (const Reader& user : slot.readers) {
      users.push_back({{"op", user.op.text()},
                       {"path", user.path.text()},
                       {"need", lacuna::name_of(user.need)},
                       {"derives", user.rematerializes}});
      why += (why.empty() ? "" : "; ") + describe_user(user);
    }
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
    if (facts.parameter && !options.all) continue;
    rows.push_back({std::string(facts.path.text()), slot_name(facts), to_string(facts.shape), format_bytes(slot.bytes),
                    describe_hold(slot), why});
  }
  ledger(Device::meta).reset_peak();
  tape.backward(loss);  // regions within regions open while it runs
  const Bytes backward = ledger(Device::meta).highest();
  refuse_unmatched(training.policy());
  std::string text = to_text(rows);
  if (configuration.memory.plan) text += configuration.memory.plan->text + "\n";
  const std::int64_t batch_size = configuration.train.batch_size, parts = configuration.train.accumulate;
  text += fmt::format("{} saved for backward in all, batch {}{}, policy {}\n", format_bytes(total), batch_size,
                      parts > 1 ? fmt::format(" in {} parts", parts) : "", training.policy().name());
  if (adaptive_of(training.policy()) != nullptr)
    text += "its bits are those by size alone, as nothing is measured here; a run measures what tensors are worth\n";
  text += fmt::format("backward takes up to {} of transient tensors and {} of workspace besides\n",
                      format_bytes(at(backward, Purpose::transient)), format_bytes(at(backward, Purpose::workspace)));
  options.report.write(
      text,
      {{"model", configuration.model.name},
       {"batch_size", batch_size},
       {"accumulate", parts},
       {"policy", training.policy().name()},
       {"saved", total},
       {"backward", {{"transient", at(backward, Purpose::transient)}, {"workspace", at(backward, Purpose::workspace)}}},
       {"slots", slots}});
  return 0;
}

const RegisterCommand command(50, "explain", "List every tensor saved for backward, and why", [](CLI::App& app) {
  const auto options = std::make_shared<Options>();
  options->configuration.declare(app, true);
  app.add_flag("--all", options->all, "list parameters too, which cost nothing");
  options->configuration.declare_image_gradient(app);
  options->report.declare(app);
  return std::function<ExitCode()>([options] { return explain(*options); });
});

}  // namespace
}  // namespace lacuna::apps
