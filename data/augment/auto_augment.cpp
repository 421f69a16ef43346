#include "data/augment/auto_augment.h"

#include <algorithm>
#include <iterator>
#include <numeric>
#include <utility>

namespace lacuna::augment {
namespace {

class AutoAugment : public PixelTransform {
 public:
  AutoAugment(Policy policy, Surroundings surroundings)
      : PixelTransform("data.auto_augment"), policy_(std::move(policy)), surroundings_(std::move(surroundings)) {}

 protected:
  const Policy& policy() const { return policy_; }
  /// Adds the moves of the step's pixels to `geometry`.
  void apply_step(const Step& step, SampleImage& image, SampleRandom& random, Geometry& geometry) const {
    std::ranges::move(step.apply(image, surroundings_, random), std::back_inserter(geometry));
  }
  const Step& any_step(SampleRandom& random) const {
    return policy_.steps[static_cast<std::size_t>(random.below(std::ssize(policy_.steps)))];
  }

 private:
  Policy policy_;
  Surroundings surroundings_;
};

class Choice final : public AutoAugment {
 public:
  using AutoAugment::AutoAugment;
  Geometry apply(SampleImage& image, SampleRandom& random) const override {
    Geometry geometry;
    const auto& chains = policy().chains;
    for (const Step& step : chains[static_cast<std::size_t>(random.below(std::ssize(chains)))])
      apply_step(step, image, random, geometry);
    return geometry;
  }
};

class RandAugment final : public AutoAugment {
 public:
  using AutoAugment::AutoAugment;
  Geometry apply(SampleImage& image, SampleRandom& random) const override {
    Geometry geometry;
    std::vector<double> weights = policy().weights;
    for (std::int64_t layer = 0; layer < policy().layers; ++layer)
      apply_step(weights.empty() ? any_step(random) : taken(weights, random), image, random, geometry);
    return geometry;
  }

 private:
  /// Draws a step by weight and sets its weight to 0 (sampling without replacement).
  const Step& taken(std::vector<double>& weights, SampleRandom& random) const {
    double place = random.uniform(0, std::accumulate(weights.begin(), weights.end(), 0.0));
    std::size_t last = 0;  // last step with a weight, in case rounding leaves `place` beyond the total
    for (std::size_t i = 0; i < weights.size(); ++i) {
      if (weights[i] == 0) continue;
      last = i;
      if (place < weights[i]) break;
      place -= weights[i];
    }
    weights[last] = 0;
    return policy().steps[last];
  }
};

class AugMix final : public AutoAugment {
 public:
  using AutoAugment::AutoAugment;
  bool can_be_followed() const override { return false; }
  Geometry apply(SampleImage& image, SampleRandom& random) const override {
    const auto [weights, share] = drawn_weights(random);
    const Tensor original = image.tensor();
    Geometry of_chains;
    const ImageView from = view_of(original);
    const std::int64_t count = from.bytes();
    // The sum of the chains, or their running blend.
    const Tensor result = image.scratch(original.shape(), policy().blends_each ? DType::u8 : DType::f32);
    if (policy().blends_each)
      std::copy_n(from.pixels, count, result.data<std::uint8_t>());
    else
      std::fill_n(result.data<float>(), count, 0.0F);
    for (const float weight : weights) {
      const Tensor chain = image.scratch(original.shape(), DType::u8);
      std::copy_n(from.pixels, count, chain.data<std::uint8_t>());
      image.set(chain);
      const std::int64_t depth = policy().depth > 0 ? policy().depth : 1 + random.below(3);
      for (std::int64_t i = 0; i < depth; ++i) apply_step(any_step(random), image, random, of_chains);
      const std::uint8_t* const augmented = image.tensor().data<const std::uint8_t>();
      if (policy().blends_each)
        blend_each(augmented, weight, count, result.data<std::uint8_t>());
      else
        add(augmented, weight, count, result.data<float>());
    }
    Tensor out = image.make(original.shape(), DType::u8);
    if (policy().blends_each)
      std::copy_n(result.data<std::uint8_t>(), count, out.data<std::uint8_t>());
    else
      finish(from.pixels, result.data<float>(), share, count, out.data<std::uint8_t>());
    image.set(std::move(out));
    return {};
  }

 private:
  /// Weights of the chains, and the share of their mixture in the result. If chains are blended one at a time, the
  /// weights are those that give the same result.
  std::pair<std::vector<float>, float> drawn_weights(SampleRandom& random) const {
    std::vector<double> drawn(static_cast<std::size_t>(policy().layers));
    for (double& weight : drawn) weight = random.gamma(policy().alpha);
    const double sum = std::accumulate(drawn.begin(), drawn.end(), 0.0);
    const double share = random.beta(policy().alpha, policy().alpha);
    for (double& weight : drawn) weight = sum > 0 ? weight / sum : 1.0 / static_cast<double>(drawn.size());
    if (policy().blends_each) {
      double left = 1;
      for (auto weight = drawn.rbegin(); weight != drawn.rend(); ++weight) {
        *weight = left > 0 ? *weight * share / left : 0.0;
        left *= 1 - *weight;
      }
    }
    return {{drawn.begin(), drawn.end()}, static_cast<float>(share)};
  }

  static void add(const std::uint8_t* image, float weight, std::int64_t count, float* sum) {
#pragma omp simd
    for (std::int64_t i = 0; i < count; ++i) sum[i] += weight * static_cast<float>(image[i]);
  }
  static void blend_each(const std::uint8_t* image, float weight, std::int64_t count, std::uint8_t* result) {
#pragma omp simd
    for (std::int64_t i = 0; i < count; ++i) result[i] = blend(result[i], image[i], weight);
  }
  static void finish(const std::uint8_t* original, const float* sum, float share, std::int64_t count,
                     std::uint8_t* out) {
#pragma omp simd
    for (std::int64_t i = 0; i < count; ++i) {
      const float mixed = static_cast<float>(static_cast<int>(sum[i] > 255.0F ? 255.0F : sum[i]));
      out[i] = blend(original[i], mixed, share);
    }
  }
};

}  // namespace

std::shared_ptr<const Transform> make_auto_augment(Policy policy, Surroundings surroundings) {
  switch (policy.kind) {
    case Policy::Kind::random:
      return std::make_shared<RandAugment>(std::move(policy), std::move(surroundings));
    case Policy::Kind::choice:
      return std::make_shared<Choice>(std::move(policy), std::move(surroundings));
    case Policy::Kind::mix:
      break;
  }
  surroundings.translation = 0.3;  // timm's factory default
  return std::make_shared<AugMix>(std::move(policy), std::move(surroundings));
}

}  // namespace lacuna::augment
