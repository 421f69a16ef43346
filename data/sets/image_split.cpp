#include "data/sets/image_split.h"

#include "data/encoded_images.h"
#include "data/permutation.h"

#include <optional>
#include <span>
#include <string>
#include <utility>

namespace lacuna {
namespace {

class SplitImages final : public EncodedImages {
 public:
  SplitImages(DatasetInfo info, std::shared_ptr<const ImageSplit> split, std::uint64_t seed)
      : EncodedImages(std::move(info)), split_(std::move(split)) {
    if (size() < std::ssize(split_->files))
      part_.emplace(std::ssize(split_->files), RandomStream{seed, 0, random_site("data/part")});
  }
  std::string origin(std::int64_t index) const override { return split_->tree->origin(split_->files[place_of(index)]); }
  std::int64_t label(std::int64_t index) const override { return split_->labels[place_of(index)]; }

 private:
  std::size_t place_of(std::int64_t index) const { return static_cast<std::size_t>(part_ ? (*part_)(index) : index); }

  void read_file(std::int64_t index, Sample& sample) const override {
    const std::size_t place = place_of(index);
    Tensor encoded;
    split_->tree->read(split_->files[place], [&](std::int64_t bytes) {
      encoded = sample.make("images", {bytes}, DType::u8);
      return std::span(encoded.data<std::uint8_t>(), static_cast<std::size_t>(bytes));
    });
    sample.set("images", std::move(encoded));
    Tensor label = sample.make("labels", {}, DType::i64);
    *label.data<std::int64_t>() = split_->labels[place];
    sample.set("labels", std::move(label));
  }

  std::shared_ptr<const ImageSplit> split_;
  std::optional<Permutation> part_;
};

}  // namespace

std::unique_ptr<const Dataset> open_split(DatasetInfo info, std::shared_ptr<const ImageSplit> split,
                                          std::uint64_t seed) {
  return std::make_unique<SplitImages>(std::move(info), std::move(split), seed);
}

}  // namespace lacuna
