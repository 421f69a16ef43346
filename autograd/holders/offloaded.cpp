#include "autograd/holders/holder.h"

#include <utility>

namespace lacuna {

Offloaded::Offloaded(OffloadStore& store, OffloadStore::Id id, const Owner& saved,
                     std::optional<quant::QuantizedTensor> quantized, Tensor signs)
    : store_(&store), id_(id), saved_(saved), quantized_(std::move(quantized)), signs_(std::move(signs)) {}

std::int64_t Offloaded::bytes() const {
  return (values_.defined() ? values_.bytes() : 0) + (signs_.defined() ? signs_.bytes() : 0);
}

void Offloaded::load(bool again) {
  if (values_.defined()) return;
  const AllocationScope scope(saved_);
  values_ = store_->get(id_, again);
  if (!quantized_) return;
  quant::QuantizedTensor whole = *quantized_;
  whole.bytes = values_;
  codes_.emplace(std::move(whole), signs_);
}

void Offloaded::unload() {
  values_ = {};
  codes_.reset();
}

Operand::Form Offloaded::read(const ReadRequest& request) {
  load(request.retain_graph);
  return codes_ ? codes_->read(request) : KeptForm{values_.reshape(request.shape)};
}

Quantized* Offloaded::quantized() {
  if (!quantized_) return nullptr;
  load(true);
  return &*codes_;
}

void Offloaded::release() {
  unload();
  signs_ = {};
  if (store_ != nullptr) store_->drop(id_);
  store_ = nullptr;
}

}  // namespace lacuna
