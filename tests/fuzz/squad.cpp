// Any bytes as a file of SQuAD: it is refused with an Error, or every window has its tokens, and an answer within them.
#include "tests/fuzz/text_set.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  using namespace lacuna;
  static const fuzz::TextFolder folder;
  const std::string_view text(reinterpret_cast<const char*>(bytes), size);
  folder.read_all("squad", {{"max_length", 12.0}, {"stride", 1.0}}, {"train.json", "dev.json"}, text,
                  [](const Dataset&, const Sample& sample) {
                    const std::int64_t length = sample["tokens"].shape().front();
                    const auto* const label = sample["labels"].data<const std::int64_t>();
                    if (label[0] < 0 || label[0] > label[1] || label[1] >= length) std::abort();
                    if (!sample.tensors().contains("spans")) return;
                    const auto* const span = sample["spans"].data<const std::int64_t>();
                    for (std::int64_t i = 0; i < length; ++i)
                      if (span[2 * i] > span[2 * i + 1] || span[2 * i + 1] >= sample["passage"].count()) std::abort();
                  });
  return 0;
}
