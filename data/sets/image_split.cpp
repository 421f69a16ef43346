#include "data/sets/image_split.h"

#include "data/encoded_images.h"

#include <string>
#include <utility>

namespace lacuna {
namespace {

class SplitImages final : public EncodedImages {
 public:
  SplitImages(DatasetInfo info, std::shared_ptr<const ImageSplit> split, std::uint64_t seed)
      : EncodedImages(std::move(info), std::ssize(split->files), seed), split_(std::move(split)) {}
  std::string origin(std::int64_t index) const override { return split_->tree->origin(split_->files[place_of(index)]); }
  std::int64_t label(std::int64_t index) const override { return split_->labels[place_of(index)]; }

 private:
  void read_file(std::int64_t index, Sample& sample) const override {
    const std::size_t place = place_of(index);
    read_image(*split_->tree, split_->files[place], sample);
    Tensor label = sample.make("labels", {}, DType::i64);
    *label.data<std::int64_t>() = split_->labels[place];
    sample.set("labels", std::move(label));
  }

  std::shared_ptr<const ImageSplit> split_;
};

}  // namespace

std::unique_ptr<const Dataset> open_split(DatasetInfo info, std::shared_ptr<const ImageSplit> split,
                                          std::uint64_t seed) {
  return std::make_unique<SplitImages>(std::move(info), std::move(split), seed);
}

}  // namespace lacuna
