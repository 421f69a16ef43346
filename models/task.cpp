#include "models/task.h"

#include <algorithm>

namespace lacuna {
namespace {

/// The numbers of all ranks, on each of them.
std::vector<double> all_numbers(const std::vector<Tensor>& mine, Communicator& communicator) {
  std::vector<double> numbers;
  for (const Tensor& tensor : mine)
    for (const double number : tensor.to_vector()) numbers.push_back(number);
  if (communicator.size() == 1) return numbers;
  const auto of_root = [&](const std::vector<double>& values) {
    const Tensor count = Tensor::full({}, static_cast<double>(values.size()), DType::f64, Device::cpu);
    communicator.broadcast(count, 0);
    Tensor all = Tensor::zeros({static_cast<std::int64_t>(count.item())}, DType::f64, Device::cpu);
    if (communicator.rank() == 0) std::ranges::copy(values, all.data<double>());
    communicator.broadcast(all, 0);
    return all.to_vector();
  };
  const Tensor own = Tensor::from(std::span<const double>(numbers), {std::ssize(numbers)});
  numbers.clear();
  for (const Tensor& tensor : communicator.gather(own, 0))
    for (const double number : tensor.to_vector()) numbers.push_back(number);
  return of_root(numbers);
}

/// sum += scale · value, for f64 `sum` and any floating `value` of one shape.
void add_scaled(const Tensor& sum, const Tensor& value, double scale) {
  if (sum.device() == Device::meta) return;
  with_float_type(value.dtype(), [&]<class T>(Type<T>) {
    for (std::int64_t i = 0; i < sum.count(); ++i)
      sum.data<double>()[i] += scale * static_cast<double>(to_compute(value.data<const T>()[i]));
  });
}

}  // namespace

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

std::vector<std::pair<std::string, double>> TaskTotals::values(const Task& task) const {
  std::vector<std::pair<std::string, double>> all;
  for (const Metric& metric : task.metrics()) all.emplace_back(metric.name, value(metric));
  return all;
}

void TaskTotals::add(const TaskTotals& other) {
  loss_sum += other.loss_sum;
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

void RunningTotals::add(const TaskResult& result, std::int64_t samples) {
  const Tensor& loss = result.loss.tensor();
  if (!loss_sum_.defined()) {
    loss_sum_ = Tensor::zeros({}, DType::f64, loss.device());
    for (const Metric& metric : task_.metrics())
      sums_.push_back(Tensor::zeros({metric.sums}, DType::f64, loss.device()));
    kept_.resize(sums_.size());
  }
  expect(result.sums.size() == sums_.size(), "a task of {} metrics gave sums for {}", sums_.size(), result.sums.size());
  add_scaled(loss_sum_, loss, static_cast<double>(samples));
  for (std::size_t i = 0; i < sums_.size(); ++i)
    if (task_.metrics()[i].keeps)
      kept_[i].push_back(result.sums[i]);
    else
      add_scaled(sums_[i], result.sums[i], 1);
  samples_ += samples;
}

TaskTotals RunningTotals::read(Communicator& communicator) const {
  TaskTotals totals;
  if (!loss_sum_.defined()) return totals;
  const Tensor samples = Tensor::full({}, static_cast<double>(samples_), DType::f64, loss_sum_.device());
  communicator.all_reduce(samples);
  communicator.all_reduce(loss_sum_);
  for (const Tensor& sum : sums_) communicator.all_reduce(sum);
  if (loss_sum_.device() == Device::meta) {  // it holds no values
    totals.samples = samples_;
    return totals;
  }
  totals.samples = static_cast<std::int64_t>(samples.item());
  totals.loss_sum = loss_sum_.item();
  for (std::size_t i = 0; i < sums_.size(); ++i)
    if (const Metric& metric = task_.metrics()[i]; metric.keeps)
      totals.kept[metric.name] = all_numbers(kept_[i], communicator);
    else
      totals.sums[metric.name] = sums_[i].to_vector();
  return totals;
}

Registry<TaskKind>& tasks() {
  static Registry<TaskKind> all("task");
  return all;
}

std::unique_ptr<Task> make_task(std::string_view name, const SettingValues& settings, const Model& model) {
  const TaskKind& kind = tasks().get(name);
  return kind.make(Settings("task " + std::string(name), kind.settings, settings), model);
}

}  // namespace lacuna
