// The effect of freezing, layer by layer: the table that plan, explain and train show.
#pragma once

#include "apps/train/setup.h"

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace lacuna::apps {

/// Layers that are trained alike: a block of the model or several in a row, or a part beside the blocks.
struct FreezeRow {
  std::string layers{};                      // `blocks.0-7`
  std::int64_t trained = 0, frozen = 0;      // parameters
  std::int64_t saved = 0;                    // bytes for backward, of a batch
  std::vector<std::string> without_input{};  // frozen layers whose input backward does not need for them
  std::int64_t inputs = 0;                   // bytes of those inputs, without inputs that another layer reads
};

/// The table for one batch, from a forward pass on `meta`. Empty if all parameters are trained.
std::vector<FreezeRow> freeze_table(Setup& setup, const Experiment& experiment);

/// Columns under a heading; nothing for no rows.
std::string to_text(const std::vector<FreezeRow>& rows);
nlohmann::ordered_json to_json(const std::vector<FreezeRow>& rows);

}  // namespace lacuna::apps
