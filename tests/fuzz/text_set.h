// Helpers shared by the fuzz targets of text data sets.
#pragma once

#include "core/error.h"
#include "data/dataset.h"
#include "tests/temporary_folder.h"

#include <cstdint>
#include <cstdlib>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace lacuna::fuzz {

/// A folder with a small vocabulary.
struct TextFolder : test::TemporaryFolder {
  TextFolder() {
    test::write_file(*this / "vocab.txt",
                     "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\nfilm\ngood\nbad\n##s\nwho\nmade\nit\n,\n");
  }
  /// Writes the files, opens them as the data set and reads every sample. Refusals of the input are taken, other errors
  /// end the process.
  void read_all(std::string_view name, OptionValues settings, const std::vector<std::string>& files,
                std::string_view text, const std::function<void(const Dataset&, const Sample&)>& check) const {
    // A new name each time: the reader caches files by name, size and time.
    static int number = 0;
    const std::filesystem::path where = *this / std::to_string(number++);
    std::filesystem::create_directory(where);
    for (const std::string& file : files) test::write_file(where / file, text);
    settings.emplace("tokenizer", (*this / "vocab.txt").string());
    for (const Split split : {Split::train, Split::validation}) {
      if (split == Split::validation && files.size() < 2) continue;
      try {
        const auto data = open_dataset(name, {.path = where, .split = split, .settings = settings});
        for (std::int64_t i = 0; i < data->size(); ++i) {
          Sample sample;
          sample.begin(0);
          data->read(i, sample);
          if (sample["tokens"].shape().front() < 2) std::abort();
          check(*data, sample);
        }
      } catch (const Error& error) {
        if (error.fault() != Fault::input) std::abort();
      }
    }
    std::filesystem::remove_all(where);
  }
};

}  // namespace lacuna::fuzz
