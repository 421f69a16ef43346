#include "autograd/holders/holder.h"

namespace lacuna {

Kept::Kept(const Tensor& values, std::uint64_t version, const Owner& before, const Owner& saved, bool is_owned)
    : values_(values), version_(version), before_(before), is_owned_(is_owned) {
  if (is_owned_) values_.storage()->assign(saved);
}

void Kept::release() {
  // The memory may have other references, so it is returned to its earlier owner.
  if (is_owned_ && values_.defined() && values_.storage()->owner().purpose == Purpose::saved)
    values_.storage()->assign(before_);
  values_ = {};
}

}  // namespace lacuna
