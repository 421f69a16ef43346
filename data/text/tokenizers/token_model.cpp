#include "data/text/tokenizers/token_model.h"

#include "data/text/tokenizers/json_reader.h"
#include "data/text/utf8.h"

#include <algorithm>

namespace lacuna {

void TokenModel::reject_unknown(std::string_view part) const {
  reject("the tokenizer has no token for `{}`, and no token for unknown text", beginning_of(part, 20));
}

ByteTokens::ByteTokens(const TokenIds& vocabulary) {
  for (int byte = 0; byte < 256; ++byte) {
    const auto found = vocabulary.find(fmt::format("<0x{:02X}>", byte));
    ids[byte] = found == vocabulary.end() ? -1 : found->second;
  }
}

bool ByteTokens::cover(std::string_view text) const {
  return std::ranges::all_of(text, [&](char byte) { return ids[static_cast<unsigned char>(byte)] >= 0; });
}

TokenIds read_token_ids(const JsonReader& model) {
  const JsonReader vocabulary = model.inner("vocab");
  TokenIds ids;
  ids.reserve(vocabulary.value().size());
  for (const auto& [token, id] : vocabulary.value().items()) {
    if (!id.is_number_integer())
      reject("{}: expected the id of the token {}, got {}", vocabulary.place(), token, id.dump());
    ids.emplace(token, checked_token_id(id.get<std::int64_t>(), vocabulary.place()));
  }
  return ids;
}

}  // namespace lacuna
