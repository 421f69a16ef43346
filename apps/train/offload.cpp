#include "apps/train/offload.h"

#include "apps/output/output.h"
#include "apps/train/planning.h"

#include <filesystem>

namespace lacuna::apps {

std::shared_ptr<OffloadStore> make_store(const Configuration::Memory& memory, Device device) {
  if (memory.offload.empty()) return nullptr;
  std::error_code failed;
  if (!std::filesystem::is_directory(memory.offload, failed))
    reject("memory.offload: expected a folder, got {}", memory.offload);
  OffloadOptions options{.folder = memory.offload,
                         .buffer = parse_bytes(memory.offload_buffer, "memory.offload_buffer"),
                         .device = device};
  if (!memory.offload_budget.empty()) options.budget = parse_bytes(memory.offload_budget, "memory.offload_budget");
  if (device != Device::meta)
    options.warn = [](const std::string& text) { print_error(fmt::format("lacuna: warning: {}\n", text)); };
  return std::make_shared<OffloadStore>(std::move(options));
}

}  // namespace lacuna::apps
