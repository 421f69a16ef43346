// Any bytes as a TSV file of one of GLUE's tasks (the first byte says which): refused with an Error, or every row has
// tokens and a label of the task.
#include "tests/fuzz/text_set.h"

#include <cmath>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  using namespace lacuna;
  static const fuzz::TextFolder folder;
  static const std::vector<std::string> tasks{"cola", "sst2", "mrpc", "stsb", "qqp", "mnli", "qnli", "rte", "wnli"};
  if (size == 0) return 0;
  folder.read_all("glue", {{"max_length", 12.0}, {"task", tasks[bytes[0] % tasks.size()]}}, {"train.tsv"},
                  std::string_view(reinterpret_cast<const char*>(bytes) + 1, size - 1),
                  [](const Dataset& data, const Sample& sample) {
                    const Tensor& label = sample["labels"];
                    if (label.dtype() == DType::f32) {
                      if (!std::isfinite(*label.data<const float>())) std::abort();
                      return;
                    }
                    const std::int64_t number = *label.data<const std::int64_t>();
                    if (number < 0 || number >= std::ssize(data.info().classes)) std::abort();
                  });
  return 0;
}
