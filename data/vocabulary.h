// The special token ids of a tokenizer, for tasks that replace tokens.
#pragma once

#include <cstdint>
#include <vector>

namespace lacuna {

struct Vocabulary {
  std::int64_t size = 0;                // ids are below it; 0: not known
  std::int64_t mask = -1;               // the token that stands for hidden ones; -1: there is none
  std::vector<std::int64_t> special{};  // tokens that are no part of a text, as [CLS], [SEP], [PAD], [UNK], [MASK]
};

}  // namespace lacuna
