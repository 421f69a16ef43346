// The data set of synthetic token sequences, for planning, benchmarks and tests of text models.
#include "core/error.h"
#include "core/random.h"
#include "data/dataset.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <string>

namespace lacuna {
namespace {

constexpr std::int64_t default_vocabulary = 30522, default_length = 128, default_classes = 2;
constexpr std::int64_t class_token = 101, separator = 102, mask = 103;  // BERT's ids
constexpr std::int64_t no_label = -100;                                 // label of tokens without one

std::int64_t or_default(std::int64_t given, std::int64_t otherwise) { return given > 0 ? given : otherwise; }

std::vector<std::int64_t> lengths_of(const DatasetOptions& options) {
  return options.lengths.empty() ? std::vector{default_length} : options.lengths;
}

/// The kind of label: a class, several classes, a number, a class per token, or a span.
enum class Target : std::uint8_t { one_class, classes, number, tokens, span, text };
std::array<std::pair<std::string_view, Target>, 6> names_of(Target) {
  return {{{"class", Target::one_class},
           {"classes", Target::classes},
           {"number", Target::number},
           {"tokens", Target::tokens},
           {"span", Target::span},
           {"text", Target::text}}};
}

struct RandomTokensOptions {
  Target target = Target::one_class;

  static Fields fields() {
    return {field("target", &RandomTokensOptions::target,
                  "labels: a class, any number of classes, a number, a class per token, the first and last token of "
                  "a span, or the tokens themselves")};
  }
};

Target target_of(const DatasetOptions& options) {
  return read_options<RandomTokensOptions>("data set random_tokens", options.settings).target;
}

DatasetInfo describe(const DatasetOptions& options) {
  constexpr std::int64_t train_size = 10000, validation_size = 1000;
  const std::int64_t vocabulary = or_default(options.vocabulary, default_vocabulary);
  const std::int64_t classes = or_default(options.classes, default_classes);
  const std::vector<std::int64_t> lengths = lengths_of(options);
  const std::int64_t longest = *std::ranges::max_element(lengths);
  const auto field = [&](std::string name, FieldKind kind, std::int64_t below, std::string offsets) {
    return SampleField{.name = std::move(name),
                       .kind = kind,
                       .dtype = DType::i64,
                       .shape = {longest},
                       .collation = Collation::packed,
                       .below = below,
                       .lengths = std::move(offsets)};
  };
  const Target target = target_of(options);
  const auto labels = [&] {
    SampleField made = class_field(classes);
    if (target == Target::tokens || target == Target::text) {
      made = field("labels", FieldKind::number, target == Target::text ? vocabulary : classes, "");
      made.padding = no_label;
    } else if (target == Target::span) {
      made.kind = FieldKind::number;
      made.shape = {2};
      made.below = longest;
    } else if (target != Target::one_class) {
      made = {.name = "labels",
              .kind = target == Target::number ? FieldKind::number : FieldKind::label,
              .dtype = DType::f32,
              .shape = target == Target::number ? Shape{} : Shape{classes}};
    }
    return made;
  };
  DatasetInfo info{
      .name = "random_tokens",
      .size = or_default(options.size(), options.split == Split::train ? train_size : validation_size),
      .fields = {field("tokens", FieldKind::tokens, vocabulary, ""), field("token_types", FieldKind::number, 2, ""),
                 field("pair_tokens", FieldKind::tokens, vocabulary, "pair_offsets"),
                 field("pair_token_types", FieldKind::number, 2, "pair_offsets"), labels()}};
  info.vocabulary.size = vocabulary;
  if (vocabulary > mask)
    info.vocabulary = {.size = vocabulary, .mask = mask, .special = {class_token, separator, mask}};
  if (target != Target::number && target != Target::span && target != Target::text)
    for (std::int64_t i = 0; i < classes; ++i) info.classes.push_back(std::to_string(i));
  return info;
}

/// Sample i takes its length from `data.length` in turn and has class c = i modulo the number of classes. Half of its
/// tokens are arbitrary; the others have ids equal to c modulo the number of classes, so that the class is learnable.
/// The second text, `pair_tokens`, is drawn like the first. The other kinds of labels follow from c or the tokens:
/// several classes are 0 to c; the number is c; a token's class is its id modulo the number of classes, and special
/// tokens have none; the span is the first token of class c and the one after it.
class RandomTokens final : public Dataset {
 public:
  explicit RandomTokens(const DatasetOptions& options)
      : Dataset(describe(options)),
        target_(target_of(options)),
        classes_(or_default(options.classes, default_classes)),
        seed_(options.seed),
        split_(options.split),
        lengths_(lengths_of(options)) {}

 private:
  void read_sample(std::int64_t index, Sample& sample) const override {
    draw(index, "", 0, sample);
    draw(index, "pair_", 1, sample);
    set_labels(index % classes_, sample);
  }
  void set_labels(std::int64_t number, Sample& sample) const {
    const std::int64_t length = sample["tokens"].count();
    const Shape shape = target_ == Target::tokens ? Shape{length} : field_of(info().fields, "labels").shape;
    if (target_ == Target::text) return sample.set("labels", sample["tokens"].clone(Purpose::data));
    Tensor labels = sample.make("labels", shape, field_of(info().fields, "labels").dtype);
    const auto* const id = sample["tokens"].data<const std::int64_t>();
    if (target_ == Target::one_class) {
      *labels.data<std::int64_t>() = number;
    } else if (target_ == Target::number) {
      *labels.data<float>() = static_cast<float>(number);
    } else if (target_ == Target::classes) {
      for (std::int64_t c = 0; c < classes_; ++c) labels.data<float>()[c] = c <= number ? 1 : 0;
    } else if (target_ == Target::tokens) {
      for (std::int64_t i = 0; i < length; ++i)
        labels.data<std::int64_t>()[i] = id[i] == class_token || id[i] == separator ? no_label : id[i] % classes_;
    } else {
      std::int64_t first = std::min<std::int64_t>(1, length - 1);
      while (first + 2 < length && id[first] % classes_ != number) ++first;
      labels.data<std::int64_t>()[0] = first;
      labels.data<std::int64_t>()[1] = std::min(first + 1, length - 1);
    }
    sample.set("labels", std::move(labels));
  }
  void draw(std::int64_t index, const std::string& prefix, std::uint32_t text, Sample& sample) const {
    const std::int64_t vocabulary = field_of(info().fields, "tokens").below, classes = classes_;
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

  Target target_;
  std::int64_t classes_;
  std::uint64_t seed_;
  Split split_;
  std::vector<std::int64_t> lengths_;
};

const RegisterDataset random_tokens("random_tokens",
                                    {.describe = describe,
                                     .open = [](const DatasetOptions& options) -> std::unique_ptr<const Dataset> {
                                       return std::make_unique<RandomTokens>(options);
                                     },
                                     .reads_files = false,
                                     .options = RandomTokensOptions{}});

}  // namespace
}  // namespace lacuna
