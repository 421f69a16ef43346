// Drawn sequences of token ids, for plans, benchmarks and tests of models of text.
#include "core/random.h"
#include "data/dataset.h"

#include <algorithm>
#include <string>

namespace lacuna {
namespace {

constexpr std::int64_t default_vocabulary = 30522, default_length = 128, default_classes = 2;
constexpr std::int64_t class_token = 101, separator = 102;  // BERT's

std::int64_t or_default(std::int64_t given, std::int64_t otherwise) { return given > 0 ? given : otherwise; }

std::vector<std::int64_t> lengths_of(const DatasetOptions& options) {
  return options.lengths.empty() ? std::vector{default_length} : options.lengths;
}

DatasetInfo describe(const DatasetOptions& options) {
  constexpr std::int64_t train_size = 10000, validation_size = 1000;
  const std::int64_t vocabulary = or_default(options.vocabulary, default_vocabulary);
  const std::int64_t classes = or_default(options.classes, default_classes);
  const std::vector<std::int64_t> lengths = lengths_of(options);
  const std::int64_t longest = *std::ranges::max_element(lengths);
  const auto field = [&](std::string name, std::int64_t below, std::string offsets) {
    return SampleField{.name = std::move(name),
                       .dtype = DType::i64,
                       .shape = {longest},
                       .collation = Collation::packed,
                       .below = below,
                       .lengths = std::move(offsets)};
  };
  DatasetInfo info{.name = "random_tokens",
                   .size = or_default(options.size(), options.split == Split::train ? train_size : validation_size),
                   .fields = {field("tokens", vocabulary, ""),
                              field("token_types", 2, ""),
                              field("pair_tokens", vocabulary, "pair_offsets"),
                              field("pair_token_types", 2, "pair_offsets"),
                              {.name = "labels", .dtype = DType::i64, .shape = {}, .below = classes}}};
  for (std::int64_t i = 0; i < classes; ++i) info.classes.push_back(std::to_string(i));
  return info;
}

/// Sample i has length i of `data.length`, taken in turn, and class i modulo their number. Half of its tokens are of
/// any kind, the other half of those that are its class modulo the number of classes, so that a model can learn it. The
/// second text of the sample, `pair_tokens`, is drawn as the first is.
class RandomTokens final : public Dataset {
 public:
  explicit RandomTokens(const DatasetOptions& options)
      : Dataset(describe(options)), seed_(options.seed), split_(options.split), lengths_(lengths_of(options)) {}

 private:
  void read_sample(std::int64_t index, Sample& sample) const override {
    draw(index, "", 0, sample);
    draw(index, "pair_", 1, sample);
    Tensor labels = sample.make("labels", {}, DType::i64);
    *labels.data<std::int64_t>() = index % std::ssize(info().classes);
    sample.set("labels", std::move(labels));
  }
  void draw(std::int64_t index, const std::string& prefix, std::uint32_t text, Sample& sample) const {
    const std::int64_t vocabulary = field_of(info().fields, "tokens").below, classes = std::ssize(info().classes);
    const std::int64_t length = lengths_[static_cast<std::size_t>(index) % lengths_.size()];
    Tensor tokens = sample.make(prefix + "tokens", {length}, DType::i64),
           types = sample.make(prefix + "token_types", {length}, DType::i64);
    const RandomStream stream{
        .seed = seed_, .step = 2 * text + (split_ == Split::train ? 0U : 1U), .site = random_site("random_tokens")};
    std::int64_t* const id = tokens.data<std::int64_t>();
    for (std::int64_t i = 0; i < length; ++i) {
      const auto draws = stream.draw_of_sample(static_cast<std::uint64_t>(index), static_cast<std::uint32_t>(i));
      id[i] = static_cast<std::int64_t>(std::uint64_t{draws[0]} * static_cast<std::uint64_t>(vocabulary) >> 32);
      if (draws[1] % 2 == 0) id[i] = std::min(vocabulary - 1, id[i] / classes * classes + index % classes);
    }
    if (vocabulary > separator && length > 1) {
      id[0] = class_token;
      id[length - 1] = separator;
    }
    types.fill(0);
    sample.set(prefix + "tokens", std::move(tokens));
    sample.set(prefix + "token_types", std::move(types));
  }

  std::uint64_t seed_;
  Split split_;
  std::vector<std::int64_t> lengths_;
};

const RegisterDataset random_tokens("random_tokens",
                                    {.describe = describe,
                                     .open = [](const DatasetOptions& options) -> std::unique_ptr<const Dataset> {
                                       return std::make_unique<RandomTokens>(options);
                                     },
                                     .reads_files = false});

}  // namespace
}  // namespace lacuna
