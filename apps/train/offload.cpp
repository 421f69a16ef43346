#include "apps/train/offload.h"

#include "apps/output/output.h"
#include "apps/train/planning.h"
#include "autograd/file_store.h"
#include "autograd/host_store.h"

#include <filesystem>
#include <functional>
#include <string_view>

namespace lacuna::apps {
namespace {

constexpr std::string_view host = "host";

}  // namespace

std::int64_t store_budget(const Configuration::Memory& memory) {
  return memory.offload_budget.empty() ? 0 : parse_bytes(memory.offload_budget, "memory.offload_budget");
}

std::shared_ptr<OffloadStore> make_store(const Configuration::Memory& memory, Device device) {
  if (memory.offload.empty()) return nullptr;
  const std::int64_t buffer = parse_bytes(memory.offload_buffer, "memory.offload_buffer"),
                     budget = store_budget(memory);
  std::function<void(const std::string&)> warn;
  if (device != Device::meta)
    warn = [](const std::string& text) { print_error(fmt::format("lacuna: warning: {}\n", text)); };
  if (memory.offload == host)
    return std::make_shared<HostStore>(
        HostStoreOptions{.budget = budget, .buffer = buffer, .device = device, .warn = std::move(warn)});
  std::error_code failed;
  if (!std::filesystem::is_directory(memory.offload, failed))
    reject("memory.offload: expected a folder, got {}", memory.offload);
  return std::make_shared<FileStore>(FileStoreOptions{
      .folder = memory.offload, .budget = budget, .buffer = buffer, .device = device, .warn = std::move(warn)});
}

CostTable with_store(const Configuration::Memory& memory, CostTable costs) {
  constexpr double pcie = 2e10;  // bytes a second of 16 lanes of PCIe 4.0, of pinned memory
  if (memory.offload == host) costs.disk = pcie;
  return costs;
}

}  // namespace lacuna::apps
