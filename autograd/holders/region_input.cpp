#include "autograd/holders/holder.h"
#include "autograd/saved_tensor.h"

namespace lacuna {

Operand::Form RegionInput::read(const ReadRequest& request) const {
  return saved_->operand(request.shape, request.reader).form();
}

}  // namespace lacuna
