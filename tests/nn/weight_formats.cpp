#include "nn/weight_formats.h"

#include "nn/conv.h"
#include "nn/linear.h"
#include "nn/norm.h"

#include <doctest/doctest.h>

#include <cmath>

using namespace lacuna;

namespace {

struct Layers : Module {
  explicit Layers(const ModelContext& context = {})
      : Module(context),
        first(*this, "blocks.0.fc", 64, 128),
        second(*this, "blocks.1.fc", 128, 64),
        small(*this, "small", 63, 65),
        convolution(*this, "conv", 16, 64, {.kernel = 3}),
        depthwise(*this, "depthwise", 512, 512, {.kernel = 3, .padding = 1, .groups = 512}),
        norm(*this, "norm", 8192),
        head(*this, "head", 64, 100) {}
  nn::Linear first, second, small;
  nn::Conv2d convolution, depthwise;
  nn::LayerNorm norm;
  nn::Linear head;
};

std::vector<std::string> rules(std::initializer_list<const char*> all) { return {all.begin(), all.end()}; }

WeightFormats formats_by(const Layers& layers, std::initializer_list<const char*> all) {
  const std::vector<std::string> given = rules(all);
  return weight_formats(layers, {given});
}

}  // namespace

TEST_CASE("frozen weights of layers from 4,096 elements on have a format") {
  Layers layers(ModelContext{.device = Device::meta});
  for (Parameter* const parameter : layers.parameters()) parameter->set_trainable(parameter->path() == "head.weight");
  const WeightFormats all = formats_by(layers, {"nf4"});
  CHECK(all.size() == 3);
  CHECK(all.at("blocks.0.fc.weight") == format_in_4_bits(WeightCode::nf4));
  CHECK(all.contains("conv.weight"));
  const WeightFormats some = formats_by(layers, {"blocks.0.*=f32", "conv*=bf16", "int8"});
  CHECK_FALSE(some.contains("blocks.0.fc.weight"));
  CHECK(some.at("conv.weight") == WeightFormat{});
  CHECK(some.at("blocks.1.fc.weight") == format_in_8_bits(128));
}

TEST_CASE("types and patterns without effect are refused") {
  Layers layers(ModelContext{.device = Device::meta});
  const auto refuses = [&](std::initializer_list<const char*> given) {
    CHECK_THROWS_AS(formats_by(layers, given), Error);
  };
  refuses({"nf4"});  // nothing is frozen
  for (Parameter* const parameter : layers.parameters()) parameter->set_trainable(false);
  refuses({"nf3"});
  refuses({"nothing.*=nf4", "int8"});
  refuses({"small.*=nf4"});
  refuses({"nf4", "conv*=int8"});  // the first rule takes all
  CHECK_THROWS_AS(check_weight_rules({rules({"blocks.*=f16"})}), Error);
  CHECK_THROWS_WITH_AS(check_weight_rules({rules({"@last1=nf4"})}), doctest::Contains("set"), Error);
  CHECK_NOTHROW(check_weight_rules({rules({"auto"})}));
}

TEST_CASE("a parameter in few bits is drawn as in f32, then encoded; it is not trained") {
  const auto formats = std::make_shared<const WeightFormats>(
      WeightFormats{{"blocks.0.fc.weight", format_in_4_bits(WeightCode::nf4)}, {"head.weight", WeightFormat{}}});
  const Layers exact, coded(ModelContext{.formats = formats});
  const std::vector<double> a = exact.first.weight().tensor().to_vector(),
                            b = coded.first.weight().tensor().to_vector();
  double difference = 0, largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    difference = std::max(difference, std::abs(a[i] - b[i]));
    largest = std::max(largest, std::abs(a[i]));
  }
  CHECK(difference > 0);
  CHECK(difference < 0.16 * largest);
  CHECK(type_name(coded.first.weight().tensor()) == "nf4");
  CHECK(coded.second.weight().tensor().to_vector() == exact.second.weight().tensor().to_vector());
  for (Parameter* const parameter : coded.parameters()) {
    if (parameter->path() == "blocks.0.fc.weight") {
      CHECK_FALSE(parameter->trainable());
      CHECK_THROWS_AS(parameter->set_trainable(true), Error);
    }
    if (parameter->path() == "head.weight") CHECK(parameter->trainable());  // in bf16
  }
}
