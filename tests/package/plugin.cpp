// An op, a model that uses it and data sets, for `lacuna --load`.
#include <lacuna/lacuna.h>
#include <lacuna/ops/formulas.h>
#include <lacuna/ops/row_blocks.h>

#include <cmath>

namespace {

using namespace lacuna;

constinit Kernel<void(const Tensor& x, const Tensor& y)> square_forward{"square"};
constinit Kernel<void(const Tensor& x, const Tensor& dy, const Tensor& dx)> square_backward{"square backward"};
const RegisterKernel cpu_forward{square_forward, DeviceKind::cpu, [](const Tensor& x, const Tensor& y) {
                                   with_float_type(y.dtype(), [&]<class T>(Type<T>) {
                                     map(
                                         y.count(), [](auto value) { return value * value; }, y.data<T>(), x.data<T>());
                                   });
                                 }};
const RegisterKernel cpu_backward{square_backward, DeviceKind::cpu,
                                  [](const Tensor& x, const Tensor& dy, const Tensor& dx) {
                                    with_float_type(dx.dtype(), [&]<class T>(Type<T>) {
                                      map(
                                          dx.count(), [](auto value, auto gradient) { return 2 * value * gradient; },
                                          dx.data<T>(), x.data<T>(), dy.data<T>());
                                    });
                                  }};

/// y = x², which saves x.
struct Square {
  enum Input { x };
  static constexpr std::string_view name = "square";
  static constexpr std::array saves{Save{.from = input(x), .need = Need::value, .for_grad_of = {x}}};
  Tensor forward(std::span<const Tensor> inputs) const {
    const Tensor y = empty_like(inputs[x]);
    square_forward(y.device(), inputs[x], y);
    return y;
  }
  void backward(const Tensor& dy, const Saved<Square>& saved, Grads& grads) const {
    grads[x] = empty_like(dy);
    square_backward(dy.device(), saved.get<input(x)>().whole(), dy, grads[x]);
  }
};
const RegisterOp<Square> square;

struct SquareNetOptions {
  std::int64_t image_size = 8, num_classes = 2;

  static Fields fields() {
    return {field("image_size", &SquareNetOptions::image_size, extent_range, "image side in pixels"),
            field("num_classes", &SquareNetOptions::num_classes, count_range, "outputs of the head")};
  }
  void check(HyperProblems&) const {}
};

/// Classifies by the squares of random projections of the image.
class SquareNet final : public ImageModel {
 public:
  SquareNet(const ModelContext& context, const SquareNetOptions& options)
      : ImageModel(context, {options.image_size, 1, options.num_classes, {"body.2"}}),
        pixels_(options.image_size * options.image_size),
        body_(*this, "body") {
    body_.add<nn::Linear>(pixels_, 32)
        .add([](Variable x) { return apply(Square{}, std::move(x)); })
        .add<nn::Linear>(32, options.num_classes);
  }

 private:
  Variable classify(Variable images) override {
    const std::int64_t batch = images.shape()[0];
    return body_.forward(images.reshape({batch, pixels_}));
  }

  std::int64_t pixels_;
  nn::Sequential body_;
};

const RegisterFamily<SquareNet, SquareNetOptions> family("square_net");

/// Bars on a dark ground: class 0 lies, class 1 stands.
class Bars final : public ImageDataset {
 public:
  explicit Bars(const DatasetOptions& options) : ImageDataset(describe(options)) {}
  static DatasetInfo describe(const DatasetOptions& options) {
    const ImageSize size = options.image_size.is_given() ? options.image_size : 8;
    return {.name = "bars",
            .size = options.size() > 0 ? options.size() : 256,
            .fields = image_fields(size.height, size.width, 1),
            .classes = {"lying", "standing"},
            .mean = {0.2F},
            .deviation = {0.3F}};
  }
  std::int64_t read_image(std::int64_t index, std::uint8_t* image) const override {
    const Shape& shape = info().fields.front().shape;
    const std::int64_t height = shape[0], width = shape[1], label = index % 2;
    std::fill_n(image, height * width, std::uint8_t{20});
    for (std::int64_t i = 0; i < (label == 0 ? width : height); ++i)
      image[label == 0 ? index / 2 % height * width + i : i * width + index / 2 % width] = 220;
    return label;
  }
};
const RegisterDataset bars("bars", {.describe = Bars::describe,
                                    .open = [](const DatasetOptions& options) -> std::unique_ptr<const Dataset> {
                                      return std::make_unique<Bars>(options);
                                    }});

/// Images of one brightness, which is the label, 0 to 1: for the task `regression`.
class Brightness final : public Dataset {
 public:
  explicit Brightness(const DatasetOptions& options) : Dataset(describe(options)) {}
  static DatasetInfo describe(const DatasetOptions& options) {
    DatasetInfo info = Bars::describe(options);
    info.name = "brightness";
    info.classes.clear();
    info.fields.back() = {.name = "labels", .dtype = DType::f32};
    return info;
  }

 private:
  void read_sample(std::int64_t index, Sample& sample) const override {
    const auto level = static_cast<std::uint8_t>(index * 37 % 256);
    const Tensor image = sample.make("images", info().fields.front().shape, DType::u8);
    std::fill_n(image.data<std::uint8_t>(), image.count(), level);
    sample.set("images", image);
    const Tensor label = sample.make("labels", {}, DType::f32);
    label.data<float>()[0] = static_cast<float>(level) / 255;
    sample.set("labels", label);
  }
};
const RegisterDataset brightness("brightness",
                                 {.describe = Brightness::describe,
                                  .open = [](const DatasetOptions& options) -> std::unique_ptr<const Dataset> {
                                    return std::make_unique<Brightness>(options);
                                  }});

}  // namespace
