#include "apps/train/machine_costs.h"

#include "autograd/file_store.h"
#include "autograd/plan/memory_plan.h"
#include "core/cache_folder.h"
#include "core/error.h"
#include "core/file.h"
#include "core/parallel.h"
#include "core/processor.h"
#include "core/random.h"
#include "ops/products/linear.h"
#include "ops/quantize/quantizer.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <fstream>
#include <functional>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>

namespace lacuna::apps {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

std::string entry_name() {
  return fmt::format("{}, vectors of {} bytes, {} threads, lacuna {} {}", processor_model(), kernel_vector_bytes(),
                     threads(), LACUNA_VERSION, LACUNA_BUILD);
}

/// The content of the file; nothing if there is none, or it is damaged.
json read_file() {
  std::ifstream stream(costs_file());
  json all = json::parse(stream, nullptr, false);
  return all.is_object() ? all : json::object();
}

/// The shortest time of each of several works, seconds: by turns, so that what slows the machine slows them alike, and
/// often, each for a part of a millisecond, so that in one of them no other program had the processor.
template <std::size_t count>
std::array<double, count> shortest_by_turns(const std::array<std::function<void()>, count>& works) {
  constexpr int rounds = 20;
  using Clock = std::chrono::steady_clock;
  std::array<double, count> shortest;
  shortest.fill(std::numeric_limits<double>::infinity());
  for (int round = 0; round < rounds; ++round)
    for (std::size_t i = 0; i < count; ++i) {
      const auto begin = Clock::now();
      works[i]();
      constexpr double least = 1e-9;  // a clock may stand still
      const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
      shortest[i] = std::min(shortest[i], std::max(least, seconds));
    }
  return shortest;
}

/// `nominal` times the power of √2 that lies nearest to `measured / nominal`; at most four times as much or as little,
/// since no machine is so unlike and a disturbed one seems so.
double rounded(double measured, double nominal) {
  return nominal * std::exp2(std::clamp(std::round(2 * std::log2(measured / nominal)), -4.0, 4.0) / 2);
}

constexpr std::int64_t positions = 256, channels = 512;  // of one part of what is worked on
/// In all more than caches hold.
std::int64_t parts() { return std::max(32, threads()); }

/// Bytes a second, written and then read.
double disk_rate(const fs::path& folder) {
  constexpr std::int64_t tensors = 8, bytes = std::int64_t{32} << 20;
  FileStore store({.folder = folder, .buffer = bytes});
  const Tensor values = Tensor::zeros({bytes}, DType::u8, Device::cpu);
  const auto begin = std::chrono::steady_clock::now();
  std::vector<OffloadStore::Id> ids;
  for (std::int64_t i = 0; i < tensors; ++i) {
    const std::optional<OffloadStore::Id> id = store.put(values);
    if (!id) reject("doctor --disk: {} has no room for {}", folder.string(), format_bytes(tensors * bytes));
    ids.push_back(*id);
  }
  for (auto id = ids.rbegin(); id != ids.rend(); ++id) store.get(*id, false);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  return 2.0 * tensors * bytes / seconds.count();
}

CostTable measure_costs(const fs::path& disk) {
  const Tensor x = Tensor::empty({parts(), positions, channels}, DType::f32, Device::cpu), y = empty_like(x);
  const Tensor weight = Tensor::empty({channels, channels}, DType::f32, Device::cpu);
  const RandomStream draws{1, 0, random_site("costs")};
  for (const Tensor& drawn : {x, weight})
    for (std::int64_t i = 0; i < drawn.count(); ++i)
      drawn.data<float>()[i] = draws.uniform(static_cast<std::uint64_t>(i)) - 0.5F;
  constexpr int widths[] = {2, 3, 4, 8};  // two of each quantizer: their mean is less noisy
  constexpr std::size_t count = 2 + 2 * std::size(widths);

  // Each thread does all of it by itself, at the same time as the others: they share what memory gives, as in a step,
  // but none waits for another, which on a busy machine would be all that is measured.
  const std::int64_t workers = threads(), all_parts = parts();  // within, it is one
  std::vector<std::array<double, count>> of_thread(static_cast<std::size_t>(workers));
  parallel_tasks(workers, [&](std::int64_t task, int) {
    const Tensor part = x.leading(task, task + 1), out = empty_like(part);
    const Bound<Linear> linear({});
    const std::vector<Tensor> operands{part.reshape({positions, channels}), weight, Tensor()};
    // A pass is over another of the thread's parts every time: from memory, and to it.
    const std::int64_t first = all_parts * task / workers, own = all_parts * (task + 1) / workers - first;
    std::int64_t passes = 0;
    std::array<quant::QuantizedTensor, std::size(widths)> codes;
    std::array<std::function<void()>, count> works;
    works[0] = [&] {
      std::vector<Tensor> extra_outputs;
      linear.forward(operands, extra_outputs);
    };
    works[1] = [&] {
      const std::int64_t at = first + passes++ % own;
      map(
          part.count(), [](float value) { return 0.5F * value + 1.0F; }, y.leading(at, at + 1).data<float>(),
          x.leading(at, at + 1).data<float>());
    };
    for (std::size_t i = 0; i < std::size(widths); ++i) {
      const std::int64_t group = quant::min_error_quantizer(widths[i]).group_size(MemoryPlan{}.group_size);
      const quant::QuantConfig coding = quant::min_error_config(widths[i], {.size = group});
      works.at(2 + 2 * i) = [&, i, coding] {
        codes.at(i) = {};  // the memory of the codes before is taken again, as in training
        codes.at(i) = quant::quantize(part, coding, 1);
      };
      works.at(3 + 2 * i) = [&, i] { quant::dequantize(codes.at(i), 0, part.count(), out); };
    }
    of_thread[static_cast<std::size_t>(task)] = shortest_by_turns(works);
  });
  std::array<double, count> seconds{};  // for a part
  for (const std::array<double, count>& own : of_thread)
    for (std::size_t i = 0; i < count; ++i) seconds[i] += own[i] / static_cast<double>(of_thread.size());

  const CostTable nominal;
  CostTable costs;
  constexpr double elements = positions * channels, bytes = elements * sizeof(float);
  // How much longer than by the nominal rate products take here: the unit of all the others.
  const double slower = seconds[0] * nominal.macs / (elements * channels);
  costs.bytes = rounded(2 * bytes / seconds[1] * slower, nominal.bytes);
  std::map<std::string, std::vector<double>> coding;  // seconds by quantizer
  for (std::size_t i = 0; i < std::size(widths); ++i)
    coding[std::string(quant::min_error_config(widths[i], {}).quantizer)].push_back(seconds[2 + 2 * i] +
                                                                                    2 * seconds[3 + 2 * i]);
  for (const auto& [name, all] : coding) {
    const double mean = std::accumulate(all.begin(), all.end(), 0.0) / static_cast<double>(all.size());
    costs.coding[name] = rounded(mean / bytes / slower, quant::quantizers().get(name)->seconds_per_byte());
  }
  costs.disk = machine_costs().disk;
  if (!disk.empty())  // disks differ by more than processors do
    costs.disk = nominal.disk * std::exp2(std::round(2 * std::log2(disk_rate(disk) * slower / nominal.disk)) / 2);
  return costs;
}

}  // namespace

fs::path costs_file() {
  const fs::path folder = cache_folder();
  return folder.empty() ? folder : folder / "costs.json";
}

CostTable machine_costs() {
  const json all = read_file();
  const auto entry = all.find(entry_name());
  if (entry == all.end() || !entry->is_object()) return {};
  CostTable costs;
  const auto read = [&](const std::string& name, double& cost) {
    const auto value = entry->find(name);
    if (value == entry->end() || !value->is_number()) return false;
    cost = value->get<double>();
    return std::isfinite(cost) && cost > 0;
  };
  if (!read("bytes", costs.bytes)) return {};
  if (double disk = 0; read("disk", disk)) costs.disk = disk;
  for (const std::string& name : quant::quantizers().names())
    if (double rate = 0; read(name, rate)) costs.coding[name] = rate;
  return costs;
}

CostTable calibrate(const fs::path& disk) {
  const fs::path file = costs_file();
  if (file.empty())
    reject("doctor --calibrate: expected $XDG_CACHE_HOME or $HOME, which say where to write, got neither");
  std::error_code failed;
  fs::create_directories(file.parent_path(), failed);
  const CostTable measured = measure_costs(disk);
  json all = read_file(), entry;
  entry["bytes"] = measured.bytes;
  entry["disk"] = measured.disk;
  for (const auto& [name, rate] : measured.coding) entry[name] = rate;
  all[entry_name()] = entry;
  write_file_atomically(file, all.dump(2) + "\n");
  return measured;
}

}  // namespace lacuna::apps
