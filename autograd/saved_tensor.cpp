#include "autograd/saved_tensor.h"

#include "autograd/policies/grouping.h"

#include "core/random.h"
#include "ops/quantize/sign_mask.h"

#include <algorithm>
#include <limits>

namespace lacuna {

SavedTensor::SavedTensor(const Tensor& tensor, MemoryPolicy& policy, std::uint64_t tape, SavedTensorQueue& queue,
                         const Producer& maker)
    : tensor_(tensor),
      policy_(policy),
      queue_(&queue),
      tape_(tape),
      maker_(maker),
      shape_(tensor.shape()),
      dtype_(tensor.dtype()),
      device_(tensor.device()),
      version_(tensor.storage()->version()),
      parameter_(tensor.storage()->owner().purpose == Purpose::parameters),
      owner_(tensor.storage()->owner()) {
  if (owner_.purpose == Purpose::saved) owner_.purpose = Purpose::transient;  // of another saved tensor until now
}

SavedTensor::~SavedTensor() { free(); }

void SavedTensor::release() noexcept {
  if (--names_ > 0 || settled_ || queued_ || queue_ == nullptr) return;
  queued_ = true;
  queue_->push_back(weak_from_this());
}

void SavedTensor::finalize_if_unnamed() {
  if (names_ == 0) finalize();
  queued_ = false;
}

void SavedTensor::set_origin(Origin origin) {
  origin_ = std::move(origin);
  for (const SavedTensorPtr& source : origin_.sources) {
    if (!source) continue;
    source->derived_.push_back(weak_from_this());
    if (source->is_aux()) source->hold();  // statistics have no variable: they wait for what may come of them
  }
}

void SavedTensor::release_origin() {
  const Origin origin = std::exchange(origin_, {});
  for (const SavedTensorPtr& source : origin.sources) {
    if (!source) continue;
    if (settled_ && how_ == Hold::rematerialize)
      source->release_reader();
    else if (source->is_aux())
      source->release();
  }
}

void SavedTensor::add_user(const Reader& user, Groups groups, std::int64_t heads) {
  check_version(user.op);
  expect(!is_discarded(), "{} in {} needs a tensor of {} that was given up", user.op.text(), user.path.text(),
         maker_.path.text());
  users_.push_back(user);
  need_ = std::max(need_, user.need);
  add_hint(groups, heads);
}

void SavedTensor::withdraw_user() {
  if (settled_) return release_reader();
  users_.pop_back();
  need_ = Need::sign;
  for (const Reader& user : users_) need_ = std::max(need_, user.need);
}

void SavedTensor::add_hint(Groups groups, std::int64_t heads) {
  // Tokens whose scales differ lose most by a range that they share.
  if (groups == Groups::token || (groups != Groups::run && maker_.groups == Groups::run)) {
    maker_.groups = groups;
    maker_.heads = heads;
  }
}

SavedTensorReport SavedTensor::report() const {
  SavedTensorReport report{facts(), how_, held_bytes(), bits(), keeps_slope(), keeps_signs(), users_};
  report.facts.users = {};
  return report;
}

void SavedTensor::check_version(Label reader) const {
  if (!stale()) return;
  fail(
      "{} reads a tensor of {} {} ({}) as it was when it was recorded, but it was changed in place since: run backward "
      "before the change, or forward again",
      reader.text(), maker_.op.text().empty() ? "parameter" : maker_.op.text(),
      maker_.path.text().empty() ? owner_.path.text() : maker_.path.text(), shape_);
}

bool SavedTensor::usable_as_source(Need need) const {
  if (slopes_ != nullptr) return false;  // its values are not there
  if (stale() || is_discarded()) return false;
  if (settled_) return need < Need::exact || !policy_.quantizes() || !may_be_coded();
  return parameter_ || is_aux() || (!users_.empty() && need_ >= Need::value);
}

bool SavedTensor::is_optional() const {
  return std::all_of(users_.begin(), users_.end(), [](const Reader& user) { return user.optional; });
}

bool SavedTensor::is_coded() const {
  if (!settled_ || how_ != Hold::rematerialize) return how_ == Hold::quantize;
  return std::any_of(origin_.sources.begin(), origin_.sources.end(),
                     [](const SavedTensorPtr& source) { return source && source->is_coded(); });
}

bool SavedTensor::may_be_coded() const {
  if (parameter_ || is_aux()) return false;
  if (!settled_ || how_ != Hold::rematerialize) return !settled_ || how_ == Hold::quantize;
  return std::any_of(origin_.sources.begin(), origin_.sources.end(),
                     [](const SavedTensorPtr& source) { return source && source->may_be_coded(); });
}

bool SavedTensor::found_approximately() const {
  return origin_.op == nullptr ||
         std::any_of(origin_.sources.begin(), origin_.sources.end(),
                     [](const SavedTensorPtr& source) { return source && source->may_be_coded(); });
}

bool SavedTensor::can_rematerialize() const {
  return origin_.op != nullptr &&
         std::all_of(origin_.sources.begin(), origin_.sources.end(),
                     [this](const SavedTensorPtr& source) { return !source || source->usable_as_source(need_); });
}

// An undecided source counts as kept: it considers the chain above it when it is finalized.
int SavedTensor::chain_below() const {
  if (!settled_ || how_ != Hold::rematerialize) return 0;
  int longest = 0;
  for (const SavedTensorPtr& source : origin_.sources)
    if (source) longest = std::max(longest, source->chain_below());
  return longest + 1;
}

void SavedTensor::raise_chain_above(int above) {
  if (above <= chain_above_) return;
  chain_above_ = above;
  if (!settled_ || how_ != Hold::rematerialize) return;
  for (const SavedTensorPtr& source : origin_.sources)
    if (source) source->raise_chain_above(above + 1);
}

SavedTensorInfo SavedTensor::facts() const {
  int below = 0;
  for (const SavedTensorPtr& source : origin_.sources)
    if (source) below = std::max(below, source->chain_below());
  return {.op = maker_.op,
          .path = maker_.path,
          .source = maker_.source,
          .occurrence = maker_.occurrence,
          .shape = shape_,
          .dtype = dtype_,
          .bytes = shape_.count() * size_of(dtype_),
          .tape = tape_,
          .need = need_,
          .groups = maker_.groups,
          .heads = maker_.heads,
          .optional = is_optional(),
          .parameter = parameter_,
          .borrowed = borrowed(),
          .can_rematerialize = can_rematerialize(),
          .approximate = found_approximately(),
          .chain = below + 1 + chain_above_,
          .results_unread = std::ranges::all_of(derived_,
                                                [](const std::weak_ptr<SavedTensor>& result) {
                                                  const SavedTensorPtr alive = result.lock();
                                                  return !alive || (alive->used_ && !alive->may_be_read_);
                                                }),
          .users = users_};
}

std::int64_t SavedTensor::read_bytes() const {
  if (how_ == Hold::quantize) return codes_.bytes.bytes();
  return how_ == Hold::sign_mask ? mask_.bytes() : shape_.count() * size_of(dtype_);
}

// An input that its caller gave up is in no other hands.
bool SavedTensor::borrowed() const { return maker_.op.text().empty() && tensor_.defined() && !tensor_.unique(); }

std::int64_t SavedTensor::held_bytes() const {
  if (!settled_) return 0;
  const std::int64_t mask = mask_.defined() ? mask_.bytes() : 0;
  if (how_ == Hold::quantize) return mask + codes_.bytes.bytes();
  if (how_ == Hold::sign_mask || !tensor_.defined() || costs_nothing_) return mask;
  return mask + tensor_.bytes();  // of a view: its own part of the storage
}

Hold SavedTensor::decide() const {
  if (parameter_) return {.kind = Hold::keep};
  if (users_.empty()) return {.kind = Hold::drop};
  const Hold decision = policy_.decide(facts());
  const Hold::Kind hold = decision.kind;
  // A mask or code of values that are not those of forward would be wrong in silence; a kept tensor is refused when it
  // is read.
  if ((hold == Hold::sign_mask || hold == Hold::quantize) && stale()) return {.kind = Hold::keep};
  expect(hold != Hold::drop || is_optional(), "a policy drops what {} needs", users_.front().op.text());
  expect(hold != Hold::rematerialize || can_rematerialize(),
         "a policy rematerializes a tensor that cannot be: {} of {}", maker_.op.text(), maker_.path.text());
  expect(hold != Hold::sign_mask || need_ == Need::sign, "a policy masks what is needed as {}: {} of {}",
         name_of(need_), maker_.op.text(), maker_.path.text());
  expect(hold != Hold::quantize || policy_.quantizes(), "the policy {} codes {} of {}, and says that it codes nothing",
         policy_.name(), maker_.op.text(), maker_.path.text());
  expect(hold != Hold::quantize || (need_ <= Need::value && is_floating(dtype_)),
         "a policy codes a tensor of {} that is needed as {}: {} of {}", name_of(dtype_), name_of(need_),
         maker_.op.text(), maker_.path.text());
  return decision;
}

void SavedTensor::encode(const Hold& decision) {
  slopes_ = decision.slopes;
  if (slopes_ != nullptr) {
    codes_ = {
        .config = {.bits = 2}, .shape = shape_, .dtype = dtype_, .bytes = quant::quantize_slopes(tensor_, *slopes_)};
    return;
  }
  // One random stream for each tensor and step, whatever else the step draws.
  const RandomStream stream = random_stream(facts().key());
  const std::array<std::uint32_t, 4> draw =
      stream.draw(decision.draw + (std::uint64_t{stream.first_sample} << 32));  // micro-batches differ
  const std::uint64_t key = std::uint64_t{draw[0]} << 32 | draw[1];
  RunningRanges* const running = decision.running;
  if (running == nullptr || device_ == Device::meta) {
    codes_ = quant::quantize(tensor_, decision.config, key);
    return;
  }
  const auto groups = static_cast<std::size_t>(quant::group_count(shape_, decision.config.grouping));
  std::vector<quant::Range> ranges = running->ranges, seen = ranges;  // of a group without finite values: as before
  if (ranges.size() != groups) {  // the first step takes the ranges of its own tensor
    constexpr float infinity = std::numeric_limits<float>::infinity();
    ranges.assign(groups, {0, 0});
    seen.assign(groups, {infinity, -infinity});
    quant::quantize(tensor_, decision.config, key, ranges, seen);
    const auto is_unseen = [](const quant::Range& range) { return range.min > range.max; };
    if (std::any_of(seen.begin(), seen.end(), is_unseen)) {  // a step with finite values is to be the first
      std::replace_if(seen.begin(), seen.end(), is_unseen, quant::Range{});
      codes_ = quant::quantize(tensor_, decision.config, key, seen, {});
      return;
    }
    ranges = seen;
  }
  codes_ = quant::quantize(tensor_, decision.config, key, ranges, seen);
  const auto keep = static_cast<float>(running->decay), take = 1 - keep;
  for (std::size_t i = 0; i < groups; ++i) {
    quant::Range& range = ranges[i];
    range = {keep * range.min + take * seen[i].min, keep * range.max + take * seen[i].max};
  }
  running->ranges = std::move(ranges);  // last: an encoding that fails is tried again
}

void SavedTensor::finalize() {
  if (settled_) return;
  const Hold decision = decide();
  const Hold::Kind hold = decision.kind;
  const Owner saved{Purpose::saved, maker_.op, maker_.path};
  costs_nothing_ = parameter_ || (borrowed() && owner_.purpose == Purpose::data);
  // Before anything else changes: where there is no memory for it, all of this is tried again.
  if (hold == Hold::rematerialize)
    for (const SavedTensorPtr& source : origin_.sources)
      if (source) source->users_.reserve(source->users_.size() + origin_.sources.size());
  if (hold == Hold::sign_mask || decision.signs) {
    const AllocationScope scope(saved);
    mask_ = quant::pack_signs(tensor_);
    mask_.set_purpose(Purpose::saved);
  }
  if (hold == Hold::rematerialize) {
    const std::span<const Remat> table = origin_.op->rematerializes();
    for (std::size_t i = 0; i < origin_.sources.size(); ++i) {
      const SavedTensorPtr& source = origin_.sources[i];
      if (!source) continue;
      const Need need = source->is_aux() ? Need::exact : std::max(need_, Need::value);
      source->add_user({maker_.op, maker_.path, table[i].from, need, true});
      source->raise_chain_above(chain_above_ + 1);
    }
  } else if (hold == Hold::quantize) {
    const AllocationScope scope(saved);
    encode(decision);
    codes_.bytes.set_purpose(Purpose::saved);
  } else if (hold == Hold::keep && !costs_nothing_) {
    tensor_.storage()->assign(saved);
  }
  shows_signs_ = hold == Hold::keep && policy_.quantizes() && found_approximately() && !stale();
  settled_ = true;
  how_ = hold;
  if (hold != Hold::keep) tensor_ = {};
  if (hold != Hold::rematerialize) {
    release_origin();
    return;
  }
  for (const SavedTensorPtr& source : origin_.sources)  // from here on it holds them as their user
    if (source && source->is_aux()) source->release();
}

void SavedTensor::discard() {
  queue_ = nullptr;
  free();
  settled_ = true;
  how_ = Hold::drop;
}

void SavedTensor::gather_coded(std::vector<SavedTensor*>& coded) {
  if (!settled_ || tensor_.defined()) return;
  if (how_ == Hold::quantize && slopes_ == nullptr && std::find(coded.begin(), coded.end(), this) == coded.end())
    coded.push_back(this);
  if (how_ != Hold::rematerialize) return;
  for (const SavedTensorPtr& source : origin_.sources)
    if (source) source->gather_coded(coded);
}

void SavedTensor::release_reader() {
  if (++left_ < users_.size()) return;
  if (!retained_) return free();
  left_ = 0;
  if (how_ != Hold::rematerialize) return;
  tensor_ = {};
  for (const SavedTensorPtr& source : origin_.sources)
    if (source) source->release_reader();
}

void SavedTensor::free() {
  if (tensor_.defined() && !parameter_ && tensor_.storage()->owner().purpose == Purpose::saved)
    tensor_.storage()->assign(owner_);  // somebody else may still hold it
  tensor_ = {};
  mask_ = {};
  codes_ = {};
  release_origin();
}

}  // namespace lacuna
