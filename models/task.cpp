#include "models/task.h"

namespace lacuna {
namespace {

/// sum += scale · value, for f64 `sum` and any floating `value` of one shape.
void add_scaled(const Tensor& sum, const Tensor& value, double scale) {
  if (sum.device() == Device::meta) return;
  with_float_type(value.dtype(), [&]<class T>(Type<T>) {
    for (std::int64_t i = 0; i < sum.count(); ++i)
      sum.data<double>()[i] += scale * static_cast<double>(to_compute(value.data<T>()[i]));
  });
}

}  // namespace

double TaskTotals::value(const Metric& metric) const {
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
}

void RunningTotals::add(const TaskResult& result, std::int64_t samples) {
  const Tensor& loss = result.loss.tensor();
  if (!loss_sum_.defined()) {
    loss_sum_ = Tensor::zeros({}, DType::f64, loss.device());
    for (const Metric& metric : task_.metrics())
      sums_.push_back(Tensor::zeros({metric.sums}, DType::f64, loss.device()));
  }
  expect(result.sums.size() == sums_.size(), "a task of {} metrics gave sums for {}", sums_.size(), result.sums.size());
  add_scaled(loss_sum_, loss, static_cast<double>(samples));
  for (std::size_t i = 0; i < sums_.size(); ++i) add_scaled(sums_[i], result.sums[i], 1);
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
  for (std::size_t i = 0; i < sums_.size(); ++i) totals.sums[task_.metrics()[i].name] = sums_[i].to_vector();
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
