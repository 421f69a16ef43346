#include "autograd/saved_tensor.h"

#include <algorithm>
#include <utility>

namespace lacuna {

SavedTensor::SavedTensor(const Tensor& tensor, MemoryPolicy& policy, const TapePlace& place, SavedTensorQueue& queue,
                         const Producer& producer)
    : tensor_(tensor),
      policy_(policy),
      queue_(&queue),
      place_(place),
      producer_(producer),
      shape_(tensor.shape()),
      dtype_(tensor.dtype()),
      device_(tensor.device()),
      version_(tensor.storage()->version()),
      is_parameter_(tensor.storage()->owner().purpose == Purpose::parameters),
      owner_(tensor.storage()->owner()) {
  if (owner_.purpose == Purpose::saved) owner_.purpose = Purpose::transient;  // belonged to another saved tensor
}

SavedTensor::~SavedTensor() { free(); }

void SavedTensor::remove_name() noexcept {
  if (--names_ > 0 || holder_ || is_queued_ || queue_ == nullptr) return;
  is_queued_ = true;
  queue_->push_back(weak_from_this());
}

void SavedTensor::finalize_if_unnamed() {
  if (names_ == 0) finalize();
  is_queued_ = false;
}

void SavedTensor::set_origin(Origin origin) {
  origin_ = std::move(origin);
  for (const SavedTensorPtr& source : origin_.sources) {
    if (!source) continue;
    source->results_.push_back(weak_from_this());
    if (!source->waits_for(*this)) continue;
    waiting_.push_back(source);
    source->add_name();
  }
}

void SavedTensor::add_reader(const Reader& reader, Groups groups, std::int64_t heads) {
  expect_unchanged(reader.op);
  expect(!is_discarded(), "{} in {} needs a tensor of {} that was given up", reader.op.text(), reader.path.text(),
         producer_.path.text());
  readers_.push_back(reader);
  need_ = std::max(need_, reader.need);
  add_hint(groups, heads);
}

void SavedTensor::withdraw_reader(const Reader& reader) {
  const auto last = std::ranges::find(readers_.rbegin(), readers_.rend(), reader);
  expect(last != readers_.rend(), "{} in {} does not read {}", reader.op.text(), reader.path.text(), key());
  readers_.erase(std::next(last).base());
  need_ = Need::sign;
  for (const Reader& left : readers_) need_ = std::max(need_, left.need);
  if (!holder_ || !readers_.empty() || guests_ > 0) return;
  free();
  holder_ = Dropped();
}

void SavedTensor::add_hint(Groups groups, std::int64_t heads) {
  // Token groups win: tokens with different scales lose the most precision in a shared range.
  if (groups == Groups::token || (groups != Groups::run && producer_.groups == Groups::run)) {
    producer_.groups = groups;
    producer_.heads = heads;
  }
}

bool SavedTensor::is_discarded() const {
  return holder_ && !std::visit([](const auto& holder) { return holder.has_values; }, *holder_);
}

bool SavedTensor::is_changed() const {
  if (holder_) return std::visit([](const auto& holder) { return holder.is_changed(); }, *holder_);
  return tensor_.defined() && tensor_.storage()->version() != version_;
}

void SavedTensor::expect_unchanged(Label reader) const {
  if (!is_changed()) return;
  fail(
      "{} reads a tensor of {} {} ({}) as it was when it was recorded, but it was changed in place since: run backward "
      "before the change, or forward again",
      reader.text(), producer_.op.text().empty() ? "parameter" : producer_.op.text(),
      producer_.path.text().empty() ? owner_.path.text() : producer_.path.text(), shape_);
}

bool SavedTensor::is_approximate() const {
  if (holder_) return std::visit([](const auto& holder) { return holder.is_approximate(); }, *holder_);
  return !is_parameter_ && !is_extra_output();
}

std::span<const SavedTensorPtr> SavedTensor::sources() const {
  if (holder_) return std::visit([](const auto& holder) { return holder.sources(); }, *holder_);
  return origin_.sources;
}

bool SavedTensor::has_approximate_origin() const {
  return sources().empty() || std::ranges::any_of(sources(), [](const SavedTensorPtr& source) {
           return source && source->is_approximate();
         });
}

// Bytes that are held only if a result is rematerialized from this tensor.
std::int64_t SavedTensor::source_bytes() const {
  if (holder_ || is_parameter_ || is_extra_output() || !readers_.empty()) return 0;
  const std::int64_t own = shape_.count() * size_of(dtype_);
  if (origin_.sources.empty()) return own;
  std::int64_t below = 0;
  for (const SavedTensorPtr& source : origin_.sources)
    if (source) below += source->source_bytes();
  return std::min(own, below);
}

// Sources that no backward reads may be held in place of this tensor if they are smaller, as before a resize.
bool SavedTensor::has_cheap_sources() const {
  std::int64_t all = 0;
  for (const SavedTensorPtr& source : sources())
    if (source) all += source->source_bytes();
  return all == 0 || all < shape_.count() * size_of(dtype_);
}

// Whether the tensor stays until `result` is decided. No variable names an extra output.
bool SavedTensor::waits_for(const SavedTensor& result) const {
  return is_extra_output() || (source_bytes() > 0 && result.has_cheap_sources());
}

bool SavedTensor::can_be_source(Need need) const {
  if (is_changed() || is_discarded()) return false;
  if (holder_) return need < Need::exact || !policy_.quantizes() || !is_approximate();
  return is_parameter_ || is_extra_output() || readers_.empty() || need_ >= Need::value;
}

bool SavedTensor::can_rematerialize() const {
  return !sources().empty() && has_cheap_sources() &&
         std::ranges::all_of(sources(),
                             [this](const SavedTensorPtr& source) { return !source || source->can_be_source(need_); });
}

bool SavedTensor::is_optional() const { return std::ranges::all_of(readers_, &Reader::optional); }

bool SavedTensor::are_results_unread() const {
  return std::ranges::all_of(results_, [](const std::weak_ptr<SavedTensor>& result) {
    const SavedTensorPtr alive = result.lock();
    return !alive || alive->holder_ || (alive->is_used_ && !alive->may_be_read_);
  });
}

// An undecided source counts as kept, since it considers the chain above it when it is finalized.
int SavedTensor::chain_below() const {
  if (!holder_ || sources().empty()) return 0;
  int longest = 0;
  for (const SavedTensorPtr& source : sources())
    if (source) longest = std::max(longest, source->chain_below());
  return longest + 1;
}

void SavedTensor::raise_chain_above(int above) {
  if (above <= chain_above_) return;
  chain_above_ = above;
  if (!holder_) return;
  for (const SavedTensorPtr& source : sources())
    if (source) source->raise_chain_above(above + 1);
}

// An input that the caller has moved in is unique and so not borrowed.
bool SavedTensor::is_borrowed() const { return producer_.op.text().empty() && tensor_.defined() && !tensor_.unique(); }

SavedTensorInfo SavedTensor::info() const {
  int below = 0;
  for (const SavedTensorPtr& source : sources())
    if (source) below = std::max(below, source->chain_below());
  return {.op = producer_.op,
          .path = producer_.path,
          .source = producer_.source,
          .occurrence = producer_.occurrence,
          .shape = shape_,
          .dtype = dtype_,
          .bytes = shape_.count() * size_of(dtype_),
          .pass = place_.pass,
          .region = place_.region,
          .need = need_,
          .groups = producer_.groups,
          .heads = producer_.heads,
          .optional = is_optional(),
          .parameter = is_parameter_,
          .borrowed = is_borrowed(),
          .can_rematerialize = can_rematerialize(),
          .approximate = has_approximate_origin(),
          .chain = below + 1 + chain_above_,
          .results_unread = are_results_unread(),
          .readers = readers_};
}

Quantized* SavedTensor::quantized() {
  if (!holder_) return nullptr;
  if (auto* const offloaded = std::get_if<Offloaded>(&*holder_)) return offloaded->quantized();
  return std::get_if<Quantized>(&*holder_);
}

bool SavedTensor::is_kept() const {
  return holder_ && !readers_.empty() &&
         std::visit([](const auto& holder) { return holder.kind == Hold::keep || holder.kind == Hold::offload; },
                    *holder_) &&
         !is_approximate();
}

bool SavedTensor::is_held() const {
  return !readers_.empty() && !(holder_ && std::holds_alternative<Dropped>(*holder_));
}

std::int64_t SavedTensor::held_bytes() const {
  return holder_ ? std::visit([](const auto& holder) { return holder.bytes(); }, *holder_) : 0;
}

std::int64_t SavedTensor::read_bytes() const {
  const std::int64_t held = held_bytes();
  return held > 0 && sources().empty() ? held : shape_.count() * size_of(dtype_);
}

SavedTensorReport SavedTensor::report() const {
  SavedTensorReport report = std::visit(
      [&](const auto& holder) {
        return SavedTensorReport{
            info(), holder.kind, holder.bytes(), holder.bits(), holder.has_slopes, holder.signs().defined(), readers_};
      },
      holder_.value());
  report.info.readers = {};
  return report;
}

Hold SavedTensor::decide() const {
  if (is_parameter_) return {.kind = Hold::keep};
  const bool is_link = !are_results_unread() && can_rematerialize();
  if (readers_.empty() && (region_input_ || !is_link)) return {.kind = Hold::drop};
  if (region_input_) return {.kind = is_optional() ? Hold::drop : need_ == Need::sign ? Hold::sign_mask : Hold::keep};
  const SavedTensorInfo known = info();
  const Hold hold = policy_.decide(known);
  expect_valid(hold, known, policy_);
  if (readers_.empty() && hold.kind != Hold::rematerialize) return {.kind = Hold::drop};
  // Signs or quantized values of a changed tensor would be silently wrong, but reading a kept one throws.
  const bool reads_values = hold.kind == Hold::sign_mask || hold.kind == Hold::quantize;
  return (reads_values || hold.store != nullptr) && is_changed() ? Hold{.kind = Hold::keep} : hold;
}

void SavedTensor::finalize() {
  if (holder_) return;
  const Hold hold = decide();
  const bool is_free = is_parameter_ || (is_borrowed() && owner_.purpose == Purpose::data);
  const bool offers_signs = hold.kind == Hold::keep && policy_.quantizes() && has_approximate_origin() && !is_changed();
  if (hold.kind == Hold::keep && region_input_ && region_input_->is_approximate())
    holder_ = RegionInput(region_input_);
  else
    holder_ = make_holder(hold, {tensor_, version_, info(), owner_, !is_free, origin_});
  region_input_ = {};
  offers_signs_ = offers_signs;
  for (const SavedTensorPtr& source : sources())
    if (source) source->raise_chain_above(chain_above_ + 1);
  tensor_ = {};
  origin_ = {};
  release_waiting();
}

Operand SavedTensor::read(const Shape& shape, Label reader, bool as_whole) {
  expect_unchanged(reader);
  const ReadRequest request{shape, reader, as_whole, is_retained_};
  return Operand(std::visit([&](auto& holder) { return holder.read(request); }, holder_.value()), shape, dtype_,
                 device_, producer_.op, producer_.path);
}

Operand SavedTensor::operand(const Shape& shape, Label reader) {
  return read(shape, reader, readers_.size() - done_ > 1);
}

Operand SavedTensor::signs(const Shape& shape, Label reader, bool optional) {
  const Tensor bits = std::visit([](const auto& holder) { return holder.signs(); }, holder_.value());
  if (bits.defined()) return Operand(SignForm{bits}, shape, dtype_, device_, producer_.op, producer_.path);
  if (optional && !offers_signs_) return {};
  return Operand(KeptForm{whole(reader).reshape(shape)}, shape, dtype_, device_, producer_.op, producer_.path);
}

Tensor SavedTensor::whole(Label reader) { return read(shape_, reader, true).whole(); }

void SavedTensor::release_waiting() noexcept {
  for (const std::vector<SavedTensorPtr> waiting = std::exchange(waiting_, {}); const SavedTensorPtr& source : waiting)
    source->remove_name();
}

void SavedTensor::release_reader() {
  if (++done_ < readers_.size() + guests_) return;
  if (!is_retained_) return free();
  done_ = 0;
  std::visit([](auto& holder) { holder.rewind(); }, *holder_);
}

void SavedTensor::discard() {
  queue_ = nullptr;
  free();
  holder_ = Dropped();
}

void SavedTensor::free() {
  if (auto* const link = holder_ ? std::get_if<Rematerialized>(&*holder_) : nullptr; link && readers_.empty())
    link->withdraw();  // no result was rematerialized from it
  if (holder_) std::visit([](auto& holder) { holder.release(); }, *holder_);
  tensor_ = {};
  region_input_ = {};
  origin_ = {};
  release_waiting();
}

}  // namespace lacuna
