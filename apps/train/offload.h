// The store of `memory.offload`.
#pragma once

#include "apps/config/configuration.h"
#include "autograd/offload_store.h"
#include "autograd/plan/cost_table.h"

#include <memory>

namespace lacuna::apps {

/// The capacity of the store in bytes; 0: unlimited.
std::int64_t store_budget(const Configuration::Memory& memory);

/// The store of a configuration, for tensors on `device`; null where nothing is offloaded. Says once on standard error
/// when it is full.
std::shared_ptr<OffloadStore> make_store(const Configuration::Memory& memory, Device device);

/// `costs` with the rate of the store instead of the disk's, where that is another.
CostTable with_store(const Configuration::Memory& memory, CostTable costs);

}  // namespace lacuna::apps
