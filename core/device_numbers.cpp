#include "core/device_numbers.h"

#include <numeric>

namespace lacuna {

DeviceNumbers::DeviceNumbers(std::span<const Tensor> tensors) {
  const std::int64_t count = std::accumulate(tensors.begin(), tensors.end(), std::int64_t{0},
                                             [](std::int64_t sum, const Tensor& each) { return sum + each.count(); });
  const Device device = tensors.front().device();
  values_ = Tensor::empty({count}, DType::f64, device, Purpose::workspace);
  std::int64_t begin = 0;
  for (const Tensor& each : tensors) {
    values_.leading(begin, begin + each.count()).copy_from(each);
    begin += each.count();
  }
  made_ = backend(device).mark(stream_of(device));
}

std::vector<double> DeviceNumbers::read() const {
  std::vector<double> values(static_cast<std::size_t>(values_.count()));
  const Device device = values_.device();
  Backend& own = backend(device);
  const Stream stream = own.input_stream(device.index);
  own.wait_for(stream, *made_);
  own.copy_out(stream, values.data(), values_.raw(), values.size() * sizeof(double));
  return values;
}

}  // namespace lacuna
