// The special token ids of a tokenizer, for tasks that replace tokens.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace lacuna {

struct Vocabulary {
  std::int64_t size = 0;                // number of ids; 0: unknown
  std::int64_t types = 2;               // number of token types
  std::int64_t mask = -1;               // the mask token; -1: none
  std::vector<std::int64_t> special{};  // special tokens: [CLS], [SEP], [PAD], [UNK], [MASK]
  std::vector<std::string> tokens{};    // by id; empty: not said
};

}  // namespace lacuna
