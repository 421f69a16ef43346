#include "autograd/holders/holder.h"
#include "autograd/saved_tensor.h"

#include <algorithm>

namespace lacuna {

Rematerialized::Rematerialized(Origin& origin, const SavedTensorInfo& info, Device device, Tensor signs)
    : shape_(info.shape),
      dtype_(info.dtype),
      device_(device),
      op_(info.op),
      path_(info.path),
      need_(info.need),
      signs_(std::move(signs)) {
  for (const SavedTensorPtr& source : origin.sources)
    if (source) source->reserve_readers(origin.sources.size());
  origin_ = std::move(origin);  // nothing allocates from here on
  for (std::size_t i = 0; i < origin_.sources.size(); ++i)
    if (origin_.sources[i]) origin_.sources[i]->add_reader(reader_of(i));
}

Reader Rematerialized::reader_of(std::size_t source) const {
  return {.op = op_,
          .kind = origin_.op->kind(),
          .path = path_,
          .source = origin_.op->rematerializes()[source].from,
          .need = origin_.sources[source]->is_extra_output() ? Need::exact : std::max(need_, Need::value),
          .rematerializes = true};
}

bool Rematerialized::is_approximate() const {
  return std::ranges::any_of(origin_.sources,
                             [](const SavedTensorPtr& source) { return source && source->is_approximate(); });
}

Operand Rematerialized::rows(Label reader) const {
  RematerializedForm form{.op = origin_.op, .sources = {}, .shape = shape_, .signs = signs_};
  const std::span<const Remat> table = form.op->rematerializes();
  for (std::size_t i = 0; i < table.size(); ++i) {
    SavedTensor* const source = origin_.sources[i].get();
    if (source != nullptr && !table[i].by_rows && !source->is_approximate())
      source->whole(reader);  // recomputes it once for all blocks of rows
    Operand operand = source != nullptr ? source->operand(origin_.shapes[i], reader) : Operand();
    // Approximate values that every row reads are decoded once, not for each block.
    if (operand.defined() && !table[i].by_rows && source->is_approximate()) operand = Operand(operand.whole());
    form.sources.push_back(std::move(operand));
  }
  return Operand(std::move(form), shape_, dtype_, device_, op_, path_);
}

Operand::Form Rematerialized::read(const ReadRequest& request) {
  if (!whole_.defined()) {
    // A row of the requested shape must consist of whole rows of the op's output.
    const std::int64_t width = request.shape.back(), own_width = shape_.back();
    const bool as_whole = request.as_whole || width == 0 || own_width == 0 || width % own_width != 0;
    const Operand values = rows(request.reader);
    // Approximate values are recomputed block by block for each reader.
    if (!as_whole || is_approximate()) return values.form();
    whole_ = values.whole();
    if (!request.retain_graph) release_sources();
  }
  return KeptForm{whole_.reshape(request.shape)};
}

void Rematerialized::rewind() {
  whole_ = {};
  for (const SavedTensorPtr& source : origin_.sources)
    if (source) source->release_reader();
}

void Rematerialized::release() {
  whole_ = {};
  signs_ = {};
  release_sources();
}

void Rematerialized::withdraw() {
  for (std::size_t i = 0; i < origin_.sources.size(); ++i)
    if (origin_.sources[i]) origin_.sources[i]->withdraw_reader(reader_of(i));
  origin_ = {};
}

void Rematerialized::release_sources() {
  const Origin origin = std::exchange(origin_, {});
  for (const SavedTensorPtr& source : origin.sources)
    if (source) source->release_reader();
}

}  // namespace lacuna
