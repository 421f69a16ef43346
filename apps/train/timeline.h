// Bytes over one training step: forward, backward, update.
#pragma once

#include "apps/train/setup.h"
#include "autograd/plan/cost_table.h"

#include <nlohmann/json_fwd.hpp>

namespace lacuna::apps {

/// Takes a second training step of a configuration on a made-up batch (the first one makes the optimizer's state) and
/// returns what stood in memory in it, by purpose and by module. Time is measured, or on `meta` predicted by `costs`.
///
///   seconds        [points]   of the step
///   phases         [["forward", seconds], ["backward", seconds], ["update", seconds]]: begins, of each micro-batch
///   by_purpose     {purpose: bytes [points]}
///   by_module      {block, as `blocks.3`: bytes [points]}, in the order of forward
///   peak           {point, bytes, taken_for, holders: the largest, as text}
///   highest        {purpose: bytes}, each at its own highest
///
/// A point stands for the moment with the most bytes since the point before it.
nlohmann::ordered_json record_timeline(Setup& setup, const Experiment& experiment, const CostTable& costs);

}  // namespace lacuna::apps
