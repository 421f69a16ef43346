#include "data/tensor_dataset.h"

#include "data/collate.h"

#include <utility>
#include <vector>

namespace lacuna {

NamedTensors allocate_samples(const SampleFields& fields, std::int64_t samples, Device device, std::string_view op) {
  const AllocationScope scope({Purpose::data, Label(op), {}});
  const std::vector<std::int64_t> lengths(static_cast<std::size_t>(samples));
  NamedTensors tensors;
  for (const SampleField& field : fields) {
    expect(field.collation == Collation::stacked, "`{}` varies in length: its samples are no rows of one tensor",
           field.name);
    tensors.set(field.name, batch_memory(field, lengths, device));
  }
  return tensors;
}

TensorDataset::TensorDataset(DatasetInfo info, NamedTensors tensors)
    : Dataset(std::move(info)), tensors_(std::move(tensors)) {
  for (const SampleField& field : this->info().fields) {
    const Tensor& tensor = tensors_.at(field.name);
    expect(tensor.dtype() == field.dtype && tensor.shape().rank() == field.shape.rank() + 1 &&
               tensor.shape().front() == size() && tensor.count() == size() * field.shape.count(),
           "`{}`: expected {} samples of {} {}, got {} {}", field.name, size(), name_of(field.dtype), field.shape,
           name_of(tensor.dtype()), tensor.shape());
  }
}

void TensorDataset::read_sample(std::int64_t index, Sample& sample) const {
  for (const SampleField& field : info().fields)
    sample.set(field.name, tensors_[field.name].leading(index, index + 1).reshape(field.shape));
}

}  // namespace lacuna
