#include "autograd/policies/rules.h"
#include "autograd/tape.h"
#include "nn/attention.h"
#include "nn/conv.h"
#include "nn/dropout.h"
#include "nn/freeze.h"
#include "nn/init.h"
#include "nn/norm.h"
#include "nn/window_attention.h"
#include "ops/arithmetic/arithmetic.h"
#include "ops/arithmetic/reduce.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

using namespace lacuna;

namespace {

struct Root : Module {
  Root() : Module(ModelContext{}) {}
};

Tensor values(const Shape& shape, std::uint32_t site) {
  const RandomStream stream{7, 0, site};
  std::vector<float> numbers(static_cast<std::size_t>(shape.count()));
  for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = 2 * stream.uniform(i) - 1;
  return Tensor::from(std::span<const float>(numbers), shape);
}

const Tensor& buffer(const Module& model, std::string_view path) {
  for (const Buffer* candidate : model.buffers())
    if (candidate->path() == path) return candidate->tensor();
  FAIL("no buffer ", path);
  return model.buffers().front()->tensor();
}

struct Statistics {
  std::vector<double> mean, unbiased_variance;
};

Statistics statistics_of(const Tensor& x) {
  const auto channels = static_cast<std::size_t>(x.shape().back());
  const std::vector<double> all = x.to_vector();
  const double rows = static_cast<double>(all.size()) / static_cast<double>(channels);
  Statistics found{std::vector<double>(channels), std::vector<double>(channels)};
  for (std::size_t i = 0; i < all.size(); ++i) found.mean[i % channels] += all[i] / rows;
  for (std::size_t i = 0; i < all.size(); ++i)
    found.unbiased_variance[i % channels] += std::pow(all[i] - found.mean[i % channels], 2) / (rows - 1);
  return found;
}

double largest_difference(const Tensor& a, const Tensor& b) {
  REQUIRE(a.shape() == b.shape());
  const std::vector<double> va = a.to_vector(), vb = b.to_vector();
  double largest = 0;
  for (std::size_t i = 0; i < va.size(); ++i) largest = std::max(largest, std::abs(va[i] - vb[i]));
  return largest;
}

}  // namespace

TEST_CASE("an RmsNorm starts as x over its root mean square, whatever its offset") {
  Root root;
  const nn::RmsNorm plain(root, "plain", 4, 1e-6), gemma(root, "gemma", 4, 1e-6, 1);
  const Tensor x = values({2, 4}, 1);
  const std::vector<double> in = x.to_vector(), y = plain.forward(Variable(x)).tensor().to_vector();
  for (std::size_t row = 0; row < 2; ++row) {
    double squares = 0;
    for (std::size_t i = 0; i < 4; ++i) squares += in[4 * row + i] * in[4 * row + i];
    for (std::size_t i = 0; i < 4; ++i)
      CHECK(y[4 * row + i] == doctest::Approx(in[4 * row + i] / std::sqrt(squares / 4)));
  }
  CHECK(largest_difference(gemma.forward(Variable(x)).tensor(), Tensor::from(std::span<const double>(y), {2, 4})) <
        1e-6);
}

TEST_CASE("window attention has torch's initial values where its options give none") {
  const nn::WindowAttentionOptions options{.heads = 2, .height = 4, .width = 4, .window_height = 4, .window_width = 4};
  Root root;
  const nn::CosineWindowAttention cosine(root, "cosine", 8, options);
  const nn::TableWindowAttention table(root, "table", 8, options);
  const Variable x(values({1, 16, 8}, 3));
  for (const nn::WindowAttention* const layer : std::initializer_list<const nn::WindowAttention*>{&cosine, &table})
    for (const double value : layer->forward(x).tensor().to_vector()) CHECK(std::isfinite(value));
}

TEST_CASE("batch norm: running statistics follow the batch in training, with the unbiased variance") {
  Root root;
  nn::BatchNorm2d norm(root, "bn", 3);
  const Tensor x = values({2, 3, 5, 3}, 1);
  norm.forward(Variable(x));
  const Statistics batch = statistics_of(x);
  for (std::size_t c = 0; c < 3; ++c) {
    CHECK(buffer(root, "bn.running_mean").to_vector()[c] == doctest::Approx(0.1 * batch.mean[c]));
    CHECK(buffer(root, "bn.running_var").to_vector()[c] == doctest::Approx(0.9 + 0.1 * batch.unbiased_variance[c]));
  }
  norm.forward_relu(Variable(x));
  norm.forward_add_relu(Variable(x), Variable(x));
  CHECK(buffer(root, "bn.num_batches_tracked").item() == 3);
}

TEST_CASE("batch norm: evaluation uses the running statistics and leaves them still") {
  Root root;
  nn::BatchNorm2d norm(root, "bn", 3);
  const Tensor x = values({2, 3, 5, 3}, 1);
  root.set_training(false);
  // Running statistics are 0 and 1, weight and bias 1 and 0: the identity but for eps.
  CHECK(largest_difference(norm.forward(Variable(x)).tensor(), x) < 1e-5);
  CHECK(buffer(root, "bn.num_batches_tracked").item() == 0);
}

TEST_CASE("batch norm: a layer frozen by the user normalises as in evaluation; wanting no gradient freezes nothing") {
  Root root;
  nn::BatchNorm2d norm(root, "bn", 3);
  const Tensor x = values({2, 3, 5, 3}, 1);
  for (Parameter* parameter : root.parameters()) parameter->set_trainable(false);
  norm.forward(Variable(x));
  CHECK(buffer(root, "bn.num_batches_tracked").item() == 1);

  freeze(root, {.train = {}, .freeze = {"bn.weight"}});
  CHECK(norm.frozen());
  const std::vector<double> mean = buffer(root, "bn.running_mean").to_vector();
  const Tensor trained = norm.forward_add_relu(Variable(x), Variable(x)).tensor();
  CHECK(buffer(root, "bn.running_mean").to_vector() == mean);
  CHECK(buffer(root, "bn.num_batches_tracked").item() == 1);
  root.set_training(false);
  CHECK(norm.forward_add_relu(Variable(x), Variable(x)).tensor().to_vector() == trained.to_vector());

  root.set_training(true);
  freeze(root, {.train = {"bn.bias"}, .freeze = {}});
  CHECK_FALSE(norm.frozen());
}

TEST_CASE("batch norm: one value a channel has no variance") {
  Root root;
  nn::BatchNorm2d norm(root, "bn", 3);
  CHECK_THROWS_WITH_AS(norm.forward(Variable(values({1, 1, 1, 3}, 1))), doctest::Contains("[1, 1, 1, 3]"), Error);
}

TEST_CASE("attention: the chain agrees with the fused op, and the first query alone with the first of all") {
  Root fused_root, chain_root;
  const nn::Attention fused(fused_root, "attn", 12, {.heads = 3});
  const nn::Attention chain(chain_root, "attn", 12, {.heads = 3, .form = nn::AttentionForm::chain});
  const Tensor x = values({2, 7, 12}, 1);
  const Tensor all = fused.forward(Variable(x)).tensor();
  CHECK(largest_difference(chain.forward(Variable(x)).tensor(), all) < 1e-6);
  const Tensor first = fused.forward(Variable(x), {.queries = 1}).tensor();
  REQUIRE(first.shape() == Shape{2, 1, 12});
  for (std::int64_t image = 0; image < 2; ++image)
    CHECK(largest_difference(first.leading(image, image + 1).reshape({1, 12}),
                             all.leading(image, image + 1).reshape({7, 12}).leading(0, 1)) < 1e-6);
  CHECK(largest_difference(chain.forward(Variable(x), {.queries = 1}).tensor(), first) < 1e-6);
}

TEST_CASE("attention: fused and chain form drop the same probabilities") {
  Root fused_root, chain_root;
  const nn::Attention fused(fused_root, "attn", 12, {.heads = 3, .attention_dropout = 0.4});
  const nn::Attention chain(chain_root, "attn", 12,
                            {.heads = 3, .attention_dropout = 0.4, .form = nn::AttentionForm::chain});
  const Tensor x = values({2, 7, 12}, 1);
  for (const std::int64_t queries : {0, 3})
    CHECK(largest_difference(fused.forward(Variable(x), {.queries = queries}).tensor(),
                             chain.forward(Variable(x), {.queries = queries}).tensor()) < 1e-6);
  const Tensor trained = fused.forward(Variable(x)).tensor();
  fused_root.set_training(false);
  CHECK(largest_difference(fused.forward(Variable(x)).tensor(), trained) > 1e-3);
}

TEST_CASE("attention: bias and key lengths reach the scores, in the fused form only") {
  Root root;
  const nn::Attention fused(root, "fused", 12, {.heads = 3});
  const nn::Attention chain(root, "chain", 12, {.heads = 3, .form = nn::AttentionForm::chain});
  const Tensor x = values({2, 7, 12}, 1);
  const Variable lengths(Tensor::from(std::vector<std::int64_t>{5, 7}, {2}));
  Tensor mask = Tensor::zeros({2, 1, 1, 7}, DType::f32, Device::cpu);
  mask.data<float>()[5] = mask.data<float>()[6] = -1e9F;
  const Tensor cut = fused.forward(Variable(x), {.key_lengths = lengths}).tensor();
  CHECK(largest_difference(fused.forward(Variable(x), {.bias = Variable(mask)}).tensor(), cut) < 1e-6);
  CHECK(largest_difference(fused.forward(Variable(x)).tensor(), cut) > 1e-3);
  CHECK_THROWS_AS(chain.forward(Variable(x), {.key_lengths = lengths}), Error);
  CHECK_THROWS_AS(chain.forward(Variable(x), {.bias = Variable(mask)}), Error);
}

TEST_CASE("attention: a recomputed layer gives a computed bias its gradient") {
  Root root;
  const nn::Attention attention(root, "attn", 12, {.heads = 3, .attention_dropout = 0.2});
  const Variable lengths(Tensor::from(std::vector<std::int64_t>{5, 7}, {2}));
  const auto gradients = [&](MemoryPolicy& policy) {
    const Variable x(values({2, 7, 12}, 1), true), table(values({1, 3, 7, 7}, 2), true);
    Tape tape(policy);
    Variable loss;
    {
      const Recording recording(tape);
      const Variable bias = apply(Scale{.factor = 2}, table);
      loss = apply(Sum{.shape = {2, 7, 12}}, attention.forward(x, {.bias = bias, .key_lengths = lengths}));
    }
    tape.backward(loss);
    return std::vector<std::vector<double>>{x.grad().to_vector(), table.grad().to_vector()};
  };
  const auto kept = gradients(*make_policy("keep"));
  CHECK(gradients(*with_rules(make_policy("exact"), {}, {"attn"})) == kept);
  CHECK(*std::ranges::max_element(kept[1]) > 0);
}

TEST_CASE("attention: heads have to divide the width") {
  Root root;
  CHECK_THROWS_AS(nn::Attention(root, "a", 12, {.heads = 5}), Error);
}

TEST_CASE("dropout: nothing happens at rate 0 or in evaluation; in training each step draws anew") {
  Root root;
  const nn::Dropout none(root, "none", 0), half(root, "half", 0.5);
  const nn::DropPath path(root, "path", 0.5);
  const Tensor x = Tensor::full({64, 8}, 1, DType::f32, Device::cpu);
  CHECK(none.forward(Variable(x)).tensor().storage() == x.storage());
  const RandomStateScope scope({.seed = 3, .step = 0});
  const std::vector<double> first = half.forward(Variable(x)).tensor().to_vector();
  CHECK(half.forward(Variable(x)).tensor().to_vector() == first);
  const RandomStateScope second_step({.seed = 3, .step = 1});
  CHECK(half.forward(Variable(x)).tensor().to_vector() != first);
  CHECK(std::count(first.begin(), first.end(), 2) + std::count(first.begin(), first.end(), 0) == 512);

  const std::vector<double> samples = path.forward(Variable(x)).tensor().to_vector();
  for (std::size_t i = 0; i < samples.size(); ++i) CHECK(samples[i] == samples[i / 8 * 8]);
  CHECK(std::count(samples.begin(), samples.end(), 0) > 0);
  root.set_training(false);
  CHECK(half.forward(Variable(x)).tensor().storage() == x.storage());
  CHECK(path.forward(Variable(x)).tensor().storage() == x.storage());
}

TEST_CASE("conv2d: a kernel or padding that the depthwise op refuses is computed all the same") {
  struct Case {
    std::int64_t kernel, padding;
  };
  constexpr std::int64_t images = 2, height = 5, width = 4, channels = 3;
  for (const auto [kernel, padding] : {Case{31, 15}, Case{3, 3}}) {
    CAPTURE(kernel);
    Root root;
    const nn::Conv2d conv(root, "conv", channels, channels,
                          {.kernel = kernel, .padding = padding, .groups = channels, .bias = false});
    const Tensor x = values({images, height, width, channels}, 1);
    const Tensor y = conv.forward(Variable(x)).tensor();
    const std::int64_t down = height + 2 * padding - kernel + 1, across = width + 2 * padding - kernel + 1;
    REQUIRE(y.shape() == Shape{images, down, across, channels});
    const std::vector<double> in = x.to_vector(), weight = root.parameters().front()->tensor().to_vector();
    std::vector<double> expected;  // y
    for (std::int64_t n = 0; n < images; ++n)
      for (std::int64_t i = 0; i < down; ++i)
        for (std::int64_t j = 0; j < across; ++j)
          for (std::int64_t c = 0; c < channels; ++c) {
            double sum = 0;
            for (std::int64_t p = 0; p < kernel; ++p)
              for (std::int64_t q = 0; q < kernel; ++q) {
                const std::int64_t row = i + p - padding, column = j + q - padding;
                if (row < 0 || row >= height || column < 0 || column >= width) continue;
                sum += in[static_cast<std::size_t>(((n * height + row) * width + column) * channels + c)] *
                       weight[static_cast<std::size_t>((c * kernel + p) * kernel + q)];
              }
            expected.push_back(sum);
          }
    CHECK(largest_difference(y, Tensor::from(std::span<const double>(expected), y.shape())) < 1e-5);
  }
}

TEST_CASE("initial values have the stated bounds and deviations") {
  Root root;
  const nn::Linear linear(root, "linear", 100, 400);
  const nn::Conv2d conv(root, "conv", 8, 64,
                        {.kernel = 3, .padding = 1, .bias = false, .init = {init::kaiming_normal_fan_out(64 * 9), {}}});
  const std::vector<Parameter*> parameters = root.parameters();
  REQUIRE(parameters.size() == 3);
  for (int i = 0; i < 2; ++i)  // weight and bias: uniform within 1 / sqrt(fan_in)
    for (const double value : parameters[static_cast<std::size_t>(i)]->tensor().to_vector())
      CHECK(std::abs(value) <= 0.1);
  const std::vector<double> weight = parameters[2]->tensor().to_vector();
  double squares = 0;
  for (const double value : weight) squares += value * value;
  CHECK(squares / static_cast<double>(weight.size()) == doctest::Approx(2.0 / (64 * 9)).epsilon(0.1));
}
