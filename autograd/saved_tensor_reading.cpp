// A saved tensor as an operand of backward.
#include "autograd/policies/grouping.h"
#include "autograd/saved_tensor.h"

#include <utility>

namespace lacuna {

quant::QuantConfig SavedTensor::coarser_config() const {
  const quant::Grouping& grouping = codes_.config.grouping;
  const bool same_groups = grouping.kind != quant::Grouping::Kind::consecutive || quant::uses_hadamard(codes_.config.bits);
  return same_groups ? quant::min_error_config(probe_bits_, grouping) : run_config(facts(), probe_bits_, grouping.size);
}

Operand SavedTensor::held_operand(const Shape& shape, Label reader) const {
  const auto made = [&](Operand::Form form) {
    return Operand(std::move(form), shape, dtype_, device_, maker_.op, maker_.path);
  };
  if (how_ == Hold::quantize && slopes_ != nullptr) return made(SlopeForm{codes_.bytes, slopes_});
  if (how_ == Hold::quantize) {
    QuantizedForm form{.values = codes_, .signs = mask_};
    if (probe_bits_ > 0) form.coarser = coarser_config();
    return made(std::move(form));
  }
  expect(settled_ && how_ == Hold::rematerialize, "{} reads values of {} {}, but {}", reader.text(), maker_.op.text(),
         maker_.path.text(), how_ == Hold::sign_mask ? "only their signs were kept" : "they were not kept");
  RematerializedForm form{.op = origin_.op, .sources = {}, .shape = shape_, .signs = mask_};
  const std::span<const Remat> table = form.op->rematerializes();
  for (std::size_t i = 0; i < table.size(); ++i) {
    const SavedTensorPtr& source = origin_.sources[i];
    if (source && !table[i].by_rows && !source->is_coded()) source->whole(reader);  // once for all blocks of rows
    form.sources.push_back(source ? source->operand(origin_.shapes[i], reader) : Operand());
  }
  return made(std::move(form));
}

Operand SavedTensor::operand(const Shape& shape, Label reader) {
  if (!tensor_.defined() && how_ == Hold::rematerialize && !is_coded()) {
    const bool is_shared = users_.size() - left_ > 1;
    const bool has_other_rows = shape.back() == 0 || shape.back() % shape_.back() != 0;  // than the op's output
    if (is_shared || has_other_rows) whole(reader);
  }
  if (!tensor_.defined()) return held_operand(shape, reader);
  check_version(reader);
  return Operand(KeptForm{tensor_.reshape(shape)}, shape, dtype_, device_, maker_.op, maker_.path);
}

Operand SavedTensor::signs(const Shape& shape, Label reader, bool optional) {
  if (!mask_.defined() && optional && !shows_signs_) return {};
  Operand::Form form = SignForm{mask_};
  if (!mask_.defined()) form = KeptForm{whole(reader).reshape(shape)};
  return Operand(std::move(form), shape, dtype_, device_, maker_.op, maker_.path);
}

Tensor SavedTensor::whole(Label reader) {
  if (!tensor_.defined()) {
    Tensor values = held_operand(shape_, reader).whole();
    if (is_coded()) return values;
    tensor_ = std::move(values);
    version_ = tensor_.storage()->version();
    owner_ = tensor_.storage()->owner();
    if (!retained_) {
      release_origin();
      how_ = Hold::keep;
    }
  }
  check_version(reader);
  return tensor_;
}

}  // namespace lacuna
