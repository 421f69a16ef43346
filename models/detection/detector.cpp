#include "models/detection/detector.h"

#include "ops/detection/boxes.h"

#include <algorithm>
#include <cstring>
#include <functional>

namespace lacuna {

Fields DetectorOptions::fields() {
  using D = DetectorOptions;
  return rows_of_base<D, ImageOptions>() +
         Fields{field("score_thresh", &D::score_thresh, up_to(1), fits_weights, "least score of a found object"),
                field("nms_thresh", &D::nms_thresh, up_to(1), fits_weights,
                      "intersection over union above which the better of two objects of a class removes the other"),
                field("topk_candidates", &D::topk_candidates, count_range, fits_weights,
                      "the best boxes of a map (retinanet) or of a class (ssdlite) that are looked at"),
                field("detections_per_img", &D::detections_per_img, count_range, fits_weights,
                      "objects found in an image at most")};
}

namespace {

/// Objects side by side, each a third of the image, as many as the batch has for each image.
std::vector<TrueObjects> made_up_objects(const Tensor& offsets, const Shape& images, DType type) {
  std::vector<TrueObjects> all;
  const auto height = static_cast<float>(images[1]), width = static_cast<float>(images[2]);
  for (std::int64_t n = 0; n < images[0]; ++n) {
    const std::int64_t count = offsets.data<const std::int64_t>()[n + 1] - offsets.data<const std::int64_t>()[n];
    TrueObjects& objects = all.emplace_back(TrueObjects{Tensor::empty({count, 4}, DType::f32, Device::cpu)});
    objects.labels.assign(static_cast<std::size_t>(count), 0);
    for (std::int64_t k = 0; k < count; ++k) {
      const float at = static_cast<float>(k) / static_cast<float>(count) * 2 / 3;
      const float box[] = {at * width, at * height, (at + 1.0F / 3) * width, (at + 1.0F / 3) * height};
      std::ranges::copy(box, objects.boxes.data<float>() + 4 * k);
    }
    objects.boxes = objects.boxes.to(type);
  }
  return all;
}

std::vector<TrueObjects> objects_of(Inputs& inputs, std::int64_t images, DType type) {
  const Tensor offsets = inputs.take("box_offsets").tensor(), boxes = inputs.take("boxes", Device::cpu).tensor(),
               labels = inputs.take("box_labels", Device::cpu).tensor(),
               uncounted =
                   inputs.contains("box_uncounted") ? inputs.take("box_uncounted", Device::cpu).tensor() : Tensor();
  const auto* const starts = offsets.data<const std::int64_t>();
  expect(offsets.count() == images + 1 && boxes.dtype() == DType::f32 && boxes.shape() == Shape{starts[images], 4} &&
             labels.count() == starts[images],
         "a detector expects `boxes` f32 [B, 4], `box_labels` [B] and `box_offsets` [{}], got {} {}, {} and {}",
         images + 1, name_of(boxes.dtype()), boxes.shape(), labels.shape(), offsets.shape());
  std::vector<TrueObjects> all;
  for (std::int64_t n = 0; n < images; ++n) {
    std::vector<float> corners;
    TrueObjects objects;
    for (std::int64_t k = starts[n]; k < starts[n + 1]; ++k) {
      if (uncounted.defined() && uncounted.data<const std::int64_t>()[k] != 0) continue;
      corners.insert(corners.end(), boxes.data<const float>() + 4 * k, boxes.data<const float>() + 4 * (k + 1));
      objects.labels.push_back(labels.data<const std::int64_t>()[k]);
    }
    objects.boxes = Tensor::from(std::span<const float>(corners), {std::ssize(objects.labels), 4}, type);
    all.push_back(std::move(objects));
  }
  return all;
}

template <class Real>
std::vector<std::int64_t> best_of(const Real* scores, Elements of, Real least, std::int64_t most) {
  std::vector<std::int64_t> order;
  for (std::int64_t i = 0; i < of.count; ++i)
    if (scores[i * of.step] > least) order.push_back(i);
  std::ranges::stable_sort(order, std::greater(), [&](std::int64_t i) { return scores[i * of.step]; });
  if (std::ssize(order) > most) order.resize(static_cast<std::size_t>(most));
  return order;
}

}  // namespace

Outputs Detector::run_with(Variable images, Inputs others) {
  const Scope scope(*this);
  std::vector<TrueObjects> truth;
  if (others.contains("boxes")) {
    const Shape shape = images.shape();
    truth = context().device == Device::meta ? made_up_objects(others.at("box_offsets").tensor(), shape, box_type())
                                             : objects_of(others, shape[0], box_type());
    for (const TrueObjects& objects : truth)
      for (const std::int64_t label : objects.labels)
        if (label < 0 || label >= num_classes())
          reject("detection: expected labels of boxes below {}, got {}", num_classes(), label);
  }
  return detect(std::move(images), truth);
}

Variable Detector::classify(Variable) { fail("a detector gives no logits of images"); }

void Detector::set_found(const std::vector<FoundObjects>& found, Outputs& outputs) {
  RowList boxes(found.front().boxes.dtype(), 4), scores(found.front().scores.dtype(), 1);
  std::vector<std::int64_t> labels, offsets{0};
  for (const FoundObjects& one : found) {
    for (std::int64_t k = 0; k < std::ssize(one.labels); ++k) {
      boxes.add(one.boxes, k);
      scores.add(one.scores, k);
    }
    labels.insert(labels.end(), one.labels.begin(), one.labels.end());
    offsets.push_back(std::ssize(labels));
  }
  outputs.set("boxes", Variable(boxes.tensor()));
  outputs.set("scores", Variable(scores.tensor()));
  outputs.set("labels", Variable(Tensor::from(std::span<const std::int64_t>(labels), {std::ssize(labels)})));
  outputs.set("offsets", Variable(Tensor::from(std::span<const std::int64_t>(offsets), {std::ssize(offsets)})));
}

Variable Detector::constant(const Tensor& tensor) const {
  const Device device = context().device;
  return Variable(device == Device::meta ? Tensor::empty(tensor.shape(), tensor.dtype(), device, Purpose::data)
                                         : on_device(tensor, device));
}

FoundObjects best_objects(const FoundObjects& candidates, ImageSize image, double nms_thresh, std::int64_t most) {
  const auto count = std::ssize(candidates.labels);
  const Tensor clipped = candidates.boxes.clone();
  with_compute_type(clipped.dtype(), [&]<class Real>(Type<Real>) {
    for (std::int64_t i = 0; i < 4 * count; ++i) {
      Real& side = clipped.data<Real>()[i];
      side = std::clamp(side, Real{0}, static_cast<Real>(i % 2 == 0 ? image.width : image.height));
    }
  });
  const Tensor classes = Tensor::from(std::span<const std::int64_t>(candidates.labels), {count});
  std::vector<std::int64_t> kept = suppress(clipped, candidates.scores, classes, nms_thresh);
  if (std::ssize(kept) > most) kept.resize(static_cast<std::size_t>(most));
  RowList boxes(clipped.dtype(), 4), scores(clipped.dtype(), 1);
  FoundObjects best;
  for (const std::int64_t k : kept) {
    boxes.add(clipped, k);
    scores.add(candidates.scores, k);
    best.labels.push_back(candidates.labels[static_cast<std::size_t>(k)]);
  }
  best.boxes = boxes.tensor();
  best.scores = scores.tensor();
  return best;
}

std::vector<std::int64_t> best_scores(const Tensor& scores, Elements of, double least, std::int64_t most) {
  return with_compute_type(scores.dtype(), [&]<class Real>(Type<Real>) {
    return best_of(scores.data<const Real>() + of.first, of, static_cast<Real>(least), most);
  });
}

void RowList::add(const Tensor& rows, std::int64_t number) {
  expect(rows.dtype() == type_, "expected rows of {}, got {}", name_of(type_), name_of(rows.dtype()));
  const auto* const row = static_cast<const std::byte*>(rows.raw()) + number * row_bytes();
  bytes_.insert(bytes_.end(), row, row + row_bytes());
}

Tensor RowList::tensor() const {
  Tensor all = Tensor::empty(width_ == 1 ? Shape{count()} : Shape{count(), width_}, type_, Device::cpu);
  if (!bytes_.empty()) std::memcpy(all.raw(), bytes_.data(), bytes_.size());
  return all;
}

}  // namespace lacuna
