// Any bytes as JSON lines of words with labels: refused with an Error, or every token has a label of the classes or none.
#include "tests/fuzz/text_set.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  using namespace lacuna;
  static const fuzz::TextFolder folder;
  folder.read_all("tagged_text", {{"max_length", 12.0}}, {"train.jsonl"},
                  std::string_view(reinterpret_cast<const char*>(bytes), size),
                  [](const Dataset& data, const Sample& sample) {
                    const Tensor& labels = sample["labels"];
                    if (!(labels.shape() == sample["tokens"].shape())) std::abort();
                    for (std::int64_t i = 0; i < labels.count(); ++i) {
                      const std::int64_t label = labels.data<const std::int64_t>()[i];
                      if (label != -100 && (label < 0 || label >= std::ssize(data.info().classes))) std::abort();
                    }
                  });
  return 0;
}
