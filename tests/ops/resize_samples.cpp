#include "ops/shapes/resize.h"
#include "tests/ops/op_sample.h"

namespace lacuna {
namespace {

struct Sizes {
  std::int64_t height, width, out_height, out_width;
};
OpSample resized(std::string name, Resampling resampling, const Sizes& sizes, std::int64_t channels) {
  return {.name = std::move(name),
          .op = bound(Resize{.resampling = resampling,
                             .height = sizes.height,
                             .width = sizes.width,
                             .out_height = sizes.out_height,
                             .out_width = sizes.out_width}),
          .inputs =
              [=](DType dtype) {
                return std::vector{sample_values({2, sizes.height, sizes.width, channels}, dtype, 1)};
              },
          .differentiable = {0}};
}

const RegisterSample up(resized("resize bilinearly", Resampling::bilinear, {5, 7, 13, 16}, 8));
const RegisterSample down(resized("resize bilinearly to less", Resampling::bilinear, {7, 9, 3, 4}, 5));
const RegisterSample corners(resized("resize with aligned corners", Resampling::bilinear_corners, {5, 3, 12, 8}, 9));
const RegisterSample one(resized("resize to one row", Resampling::bilinear_corners, {4, 3, 1, 9}, 3));
const RegisterSample spread(resized("resize one place", Resampling::bilinear, {1, 1, 6, 5}, 16));
const RegisterSample nearest(resized("resize to nearest", Resampling::nearest, {4, 5, 7, 11}, 7));
const RegisterSample fewer(resized("resize to fewer nearest", Resampling::nearest, {7, 7, 3, 2}, 16));

}  // namespace
}  // namespace lacuna
