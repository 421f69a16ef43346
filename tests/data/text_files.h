// Text data sets in a folder of a test.
#pragma once

#include "data/loader.h"
#include "data/text/text_dataset.h"
#include "tests/refusal.h"
#include "tests/temporary_folder.h"

#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lacuna::test {

// A folder with a vocabulary and files.
class Files {
 public:
  Files() {
    std::string lines;
    for (const char* const token : {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "good", "bad", "film", "who",
                                    "made", "it", "##s", ",", "\"", "john", "paris"})
      lines += std::string(token) + "\n";
    write("vocab.txt", lines);
  }
  void write(const std::string& name, std::string_view text) const {
    const std::filesystem::path path = folder_ / name;
    std::filesystem::create_directories(path.parent_path());
    write_file(path, text);
  }
  std::filesystem::path operator/(const std::string& name) const { return folder_ / name; }

  /// All rows of a file, whatever lies beside it.
  DatasetPtr open(const char* name, const std::string& path, OptionValues settings = {},
                  Split split = Split::train) const {
    settings.try_emplace("tokenizer", (folder_ / "vocab.txt").string());
    DatasetOptions options{.path = folder_ / path, .split = split, .settings = std::move(settings)};
    options.hold_out = HoldOut::none;
    return open_dataset(name, options);
  }
  /// The message that opening is refused with.
  std::string refusal(const char* name, const std::string& path, OptionValues settings = {},
                      Split split = Split::train) const {
    return refusal_of([&] { open(name, path, std::move(settings), split); });
  }

 private:
  TemporaryFolder folder_;
};

inline Batch all_of(const DatasetPtr& dataset) {
  const Batches batches(dataset, {.size = dataset->size()});
  Sample sample;
  return batches.read(0, 0, batches.allocate(), sample);
}

using Values = std::vector<double>;

}  // namespace lacuna::test
