#include "models/task.h"

#include "core/collectives.h"
#include "models/prediction.h"
#include "ops/arithmetic/reduce_kernels.h"

#include <algorithm>
#include <utility>

namespace lacuna {
namespace {

std::vector<double> numbers_of(const std::vector<Tensor>& tensors) {
  std::vector<double> numbers;
  for (const Tensor& tensor : tensors)
    for (const double number : tensor.to_vector()) numbers.push_back(number);
  return numbers;
}

}  // namespace

std::vector<Prediction> Task::predict(Model& /*model*/, Inputs /*batch*/) const {
  reject("the task has no predictions for single samples");
}

double TaskTotals::value(const Metric& metric) const {
  if (metric.keeps) {
    const auto found = kept.find(metric.name);
    expect(found != kept.end() && !found->second.empty(), "the metric {} has no numbers yet", metric.name);
    return metric.value(found->second);
  }
  const auto found = sums.find(metric.name);
  expect(found != sums.end() && std::ssize(found->second) == metric.sums, "the metric {} has no sums yet", metric.name);
  return metric.value(found->second);
}

bool TaskTotals::has(const Metric& metric) const {
  const auto found = kept.find(metric.name);
  return !metric.keeps || (found != kept.end() && !found->second.empty());
}

std::vector<std::pair<std::string, double>> TaskTotals::values(const Task& task) const {
  std::vector<std::pair<std::string, double>> all;
  for (const Metric& metric : task.metrics())
    if (has(metric)) all.emplace_back(metric.name, value(metric));
  return all;
}

void TaskTotals::add(const TaskTotals& other) {
  loss_sum += other.loss_sum;
  weight += other.weight;
  samples += other.samples;
  for (const auto& [name, more] : other.sums) {
    std::vector<double>& mine = sums[name];
    mine.resize(std::max(mine.size(), more.size()));
    for (std::size_t i = 0; i < more.size(); ++i) mine[i] += more[i];
  }
  for (const auto& [name, more] : other.kept) {
    std::vector<double>& mine = kept[name];
    mine.insert(mine.end(), more.begin(), more.end());
  }
}

TaskTotals sum_of(std::span<const TaskTotals> parts) {
  TaskTotals all;
  for (const TaskTotals& part : parts) all.add(part);
  return all;
}

std::vector<TaskTotals> all_totals(const TaskTotals& mine, const Task& task, Communicator& ranks) {
  if (ranks.size() == 1) return {mine};
  // [samples, loss_sum, weight], and the numbers of each metric behind their count
  std::vector<double> numbers{static_cast<double>(mine.samples), mine.loss_sum, mine.weight};
  for (const Metric& metric : task.metrics()) {
    const auto& by_name = metric.keeps ? mine.kept : mine.sums;
    const auto found = by_name.find(metric.name);
    const std::vector<double> none, &of_metric = found == by_name.end() ? none : found->second;
    numbers.push_back(static_cast<double>(of_metric.size()));
    numbers.insert(numbers.end(), of_metric.begin(), of_metric.end());
  }
  std::vector<TaskTotals> all;
  for (const std::vector<double>& of_rank : all_gather_numbers(ranks, numbers)) {
    TaskTotals totals{.loss_sum = of_rank[1], .weight = of_rank[2], .samples = static_cast<std::int64_t>(of_rank[0])};
    auto next = of_rank.begin() + 3;
    for (const Metric& metric : task.metrics()) {
      const auto count = static_cast<std::int64_t>(*next++);
      if (count > 0) (metric.keeps ? totals.kept : totals.sums)[metric.name] = {next, next + count};
      next += count;
    }
    all.push_back(std::move(totals));
  }
  return all;
}

void RunningTotals::add(const TaskResult& result, std::int64_t samples, const Factor& weight) {
  const Tensor& loss = result.loss.tensor();
  if (!loss_sum_.defined()) {
    loss_sum_ = Tensor::zeros({}, DType::f64, loss.device());
    for (const Metric& metric : task_.metrics())
      sums_.push_back(Tensor::zeros({metric.sums}, DType::f64, loss.device()));
    kept_.resize(sums_.size());
  }
  add_to_sums(loss.device(), weight, loss, loss_sum_);
  if (result.sums_of_host)
    left_to_host_.push_back(result.sums_of_host);
  else
    add_sums(result.sums);
  samples_ += samples;
  weight_ += weight.value;
}

void RunningTotals::add_sums(const std::vector<Tensor>& sums) {
  expect(sums.size() == sums_.size(), "a task of {} metrics gave sums for {}", sums_.size(), sums.size());
  for (std::size_t i = 0; i < sums_.size(); ++i)
    if (task_.metrics()[i].keeps)
      kept_[i].push_back(sums[i]);
    else
      add_to_sums(sums_[i].device(), 1, on_device(sums[i], sums_[i].device()), sums_[i]);
}

void RunningTotals::count_on_host() {
  for (const auto& count : std::exchange(left_to_host_, {})) add_sums(count());
}

TaskTotals RunningTotals::read_replayed(double weight, Communicator& ranks) const {
  RunningTotals now = *this;  // what the host counts is counted after each replay
  now.weight_ = weight;
  return now.read(ranks);
}

std::vector<Tensor> RunningTotals::numbers() const {
  if (!left_to_host_.empty() || std::ranges::any_of(kept_, [](const auto& kept) { return !kept.empty(); })) return {};
  std::vector<Tensor> all{loss_sum_};
  for (std::size_t i = 0; i < sums_.size(); ++i)
    if (!task_.metrics()[i].keeps) all.push_back(sums_[i]);
  return all;
}

TaskTotals RunningTotals::totals_of(std::span<const double> numbers, double weight) const {
  TaskTotals totals{.loss_sum = numbers.front(), .weight = weight, .samples = samples_};
  auto next = numbers.begin() + 1;
  for (const Metric& metric : task_.metrics()) {
    if (metric.keeps) {
      totals.kept[metric.name] = {};
      continue;
    }
    totals.sums[metric.name] = {next, next + metric.sums};
    next += metric.sums;
  }
  return totals;
}

TaskTotals RunningTotals::read(Communicator& ranks) {
  count_on_host();
  TaskTotals totals;
  if (loss_sum_.defined()) {
    totals.samples = samples_;
    totals.weight = weight_;
    if (loss_sum_.device() == Device::meta) return totals;  // it holds no values
    totals.loss_sum = loss_sum_.item();
    for (std::size_t i = 0; i < sums_.size(); ++i)
      if (const Metric& metric = task_.metrics()[i]; metric.keeps)
        totals.kept[metric.name] = numbers_of(kept_[i]);
      else
        totals.sums[metric.name] = sums_[i].to_vector();
  }
  return ranks.size() == 1 ? totals : sum_of(all_totals(totals, task_, ranks));
}

Registry<TaskKind>& tasks() {
  static Registry<TaskKind> all("task");
  return all;
}

std::unique_ptr<Task> make_task(std::string_view name, const OptionValues& given, const Model& model) {
  const TaskKind& kind = tasks().get(name);
  return kind.make(read_options(fmt::format("task {}", name), kind.options, given), model);
}

}  // namespace lacuna
