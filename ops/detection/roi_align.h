// Features of boxes, from the maps of an image.
#pragma once

#include "core/kernel.h"
#include "core/op.h"

namespace lacuna {

/// RoIAlign (He et al. 2017) over several maps, as torchvision's roi_align on each: a box is cut into bins · bins bins,
/// and each is the mean of samples that are interpolated bilinearly. boxes [R, 4] of left, top, right and bottom in
/// pixels, f32, or f64 for f64 maps; places i64 [R, 2]: the number of the box's map and that of its image; maps [N, h,
/// w, C] of one type. y [R, C · bins · bins], channel by channel. Backward sums what each place of a map gave in the
/// order of boxes.
struct RoiAlign {
  enum Input { boxes, places, first_map };
  static constexpr int most_maps = 8;
  std::vector<Shape> shapes{};   // of the maps
  std::vector<double> scales{};  // places of each map in a pixel
  std::int64_t bins = 7;
  std::int64_t samples = 2;  // of a bin along an axis; 0: one for each place of the map
  bool aligned = false;      // whether places lie at the centres of their pixels
  static constexpr std::string_view name = "roi_align";
  static constexpr InputSet all_maps = [] {
    InputSet maps;
    for (int m = 0; m < most_maps; ++m) maps.insert(first_map + m);
    return maps;
  }();
  static constexpr std::array saves{Save{.from = input(boxes), .need = Need::exact, .for_grad_of = all_maps},
                                    Save{.from = input(places), .need = Need::exact, .for_grad_of = all_maps}};
  static constexpr std::array rematerializes = [] {
    std::array<Remat, first_map + most_maps> from{};
    for (int i = 0; i < first_map + most_maps; ++i) from[static_cast<std::size_t>(i)] = all_of(input(i));
    return from;
  }();
  Tensor forward(std::span<const Tensor> inputs) const;
  void backward(const Tensor& dy, const Saved<RoiAlign>& saved, Grads& grads) const;
  void rematerialize(const RematInputs<RoiAlign>& from, const Tensor& out) const;
};

/// Rows [first_row, first_row + rows of y) of the boxes with map number `number`; leaves other rows alone.
inline constinit Kernel<void(const RoiAlign& op, std::int64_t number, const Tensor& boxes, const Tensor& places,
                             const Tensor& map, std::int64_t first_row, const Tensor& y)>
    roi_align_forward{"roi_align"};
/// Sets the gradient of map number `number`.
inline constinit Kernel<void(const RoiAlign& op, std::int64_t number, const Tensor& boxes, const Tensor& places,
                             const Tensor& dy, const Tensor& dmap)>
    roi_align_backward{"roi_align backward"};

}  // namespace lacuna
