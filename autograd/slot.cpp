#include "autograd/slot.h"

#include "ops/codec/pack.h"

#include <algorithm>

namespace lacuna {

Slot::Slot(const Tensor& tensor, const MemoryPolicy& policy, std::uint64_t tape, const SlotMaker& maker)
    : tensor_(tensor),
      policy_(policy),
      tape_(tape),
      maker_(maker),
      shape_(tensor.shape()),
      dtype_(tensor.dtype()),
      device_(tensor.device()),
      version_(tensor.storage()->version()),
      parameter_(tensor.storage()->owner().purpose == Purpose::parameters),
      owner_(tensor.storage()->owner()) {
  if (owner_.purpose == Purpose::saved) owner_.purpose = Purpose::transient;  // claimed by another slot just now
}

Slot::~Slot() { free(); }

// Called where a variable dies: what fails here (no memory for a mask) is tried again, and told, when backward begins.
void Slot::let_go() noexcept {
  if (--names_ > 0) return;
  try {
    settle();
  } catch (const Error&) {
  }
}

void Slot::set_origin(Origin origin) {
  origin_ = std::move(origin);
  // Statistics have no variable: they wait for what may be derived from them.
  for (const SlotPtr& source : origin_.sources)
    if (source && source->is_aux()) source->hold();
}

void Slot::release_origin() {
  const Origin origin = std::exchange(origin_, {});
  for (const SlotPtr& source : origin.sources) {
    if (!source) continue;
    if (settled_ && how_ == Hold::derive)
      source->leave();
    else if (source->is_aux())
      source->let_go();
  }
}

void Slot::add_user(const SlotUser& user, Groups groups, std::int64_t heads) {
  check_version(user.op);
  expect(!given_up(), "{} in {} needs a tensor of {} that was given up", user.op.text(), user.path.text(),
         maker_.path.text());
  users_.push_back(user);
  need_ = std::max(need_, user.need);
  if (groups != Groups::run && maker_.groups == Groups::run) {
    maker_.groups = groups;
    maker_.heads = heads;
  }
}

void Slot::check_version(Label reader) const {
  if (!stale()) return;
  fail(
      "{} reads a tensor of {} {} ({}) as it was when it was recorded, but it was changed in place since: run backward "
      "before the change, or forward again",
      reader.text(), maker_.op.text().empty() ? "parameter" : maker_.op.text(),
      maker_.path.text().empty() ? owner_.path.text() : maker_.path.text(), shape_);
}

bool Slot::usable_as_source() const {
  if (stale() || given_up()) return false;
  return settled_ || parameter_ || is_aux() || (!users_.empty() && need_ >= Need::value);
}

bool Slot::derivable() const {
  return origin_.op != nullptr &&
         std::all_of(origin_.sources.begin(), origin_.sources.end(),
                     [](const SlotPtr& source) { return !source || source->usable_as_source(); });
}

// A source that is still undecided counts as kept: it takes what stands on it into account when it settles.
int Slot::chain_below() const {
  if (!settled_ || how_ != Hold::derive) return 0;
  int longest = 0;
  for (const SlotPtr& source : origin_.sources)
    if (source) longest = std::max(longest, source->chain_below());
  return longest + 1;
}

void Slot::raise_chain_above(int above) {
  if (above <= chain_above_) return;
  chain_above_ = above;
  if (!settled_ || how_ != Hold::derive) return;
  for (const SlotPtr& source : origin_.sources)
    if (source) source->raise_chain_above(above + 1);
}

SlotFacts Slot::facts() const {
  int below = 0;
  for (const SlotPtr& source : origin_.sources)
    if (source) below = std::max(below, source->chain_below());
  return {.op = maker_.op,
          .path = maker_.path,
          .source = maker_.source,
          .shape = shape_,
          .dtype = dtype_,
          .bytes = shape_.count() * size_of(dtype_),
          .need = need_,
          .groups = maker_.groups,
          .heads = maker_.heads,
          .parameter = parameter_,
          .derivable = derivable(),
          .chain = below + 1 + chain_above_,
          .users = users_};
}

std::int64_t Slot::read_bytes() const { return mask_.defined() ? mask_.bytes() : shape_.count() * size_of(dtype_); }

std::int64_t Slot::held_bytes() const {
  if (!settled_ || parameter_) return 0;
  if (mask_.defined()) return mask_.bytes();
  return tensor_.defined() ? static_cast<std::int64_t>(tensor_.storage()->bytes()) : 0;
}

Hold Slot::decide() const {
  if (parameter_) return Hold::keep;
  if (users_.empty()) return Hold::drop;
  const Hold decision = policy_.settle(facts());
  // A mask of values that are not those of forward would be wrong in silence; a kept tensor is refused when it is read.
  if (decision == Hold::mask && stale()) return Hold::keep;
  expect(decision != Hold::drop, "a policy drops what {} needs", users_.front().op.text());
  expect(decision != Hold::derive || derivable(), "a policy derives what cannot be derived: {} of {}", maker_.op.text(),
         maker_.path.text());
  expect(decision != Hold::mask || need_ == Need::sign, "a policy masks what is needed as {}: {} of {}", name_of(need_),
         maker_.op.text(), maker_.path.text());
  return decision;
}

void Slot::settle() {
  if (settled_) return;
  const Hold decision = decide();
  const Owner saved{Purpose::saved, maker_.op, maker_.path};
  if (decision == Hold::derive) {
    const std::span<const Derive> table = origin_.op->derives();
    for (std::size_t i = 0; i < origin_.sources.size(); ++i) {
      const SlotPtr& source = origin_.sources[i];
      if (!source) continue;
      const Need need = source->is_aux() ? Need::exact : std::max(need_, Need::value);
      source->add_user({maker_.op, maker_.path, table[i].from, need, true});
      source->raise_chain_above(chain_above_ + 1);
    }
  } else if (decision == Hold::mask) {
    const AllocationScope scope(saved);
    mask_ = codec::pack_signs(tensor_);
    mask_.set_purpose(Purpose::saved);
  } else if (decision == Hold::keep && !parameter_) {
    tensor_.storage()->assign(saved);
  }
  settled_ = true;
  how_ = decision;
  if (decision != Hold::keep) tensor_ = {};
  if (decision != Hold::derive) {
    release_origin();
    return;
  }
  for (const SlotPtr& source : origin_.sources)  // from here on it holds them as their user
    if (source && source->is_aux()) source->let_go();
}

void Slot::abandon() {
  free();
  settled_ = true;
  how_ = Hold::drop;
}

std::vector<Tensor> Slot::source_rows(std::int64_t begin, std::int64_t end, Label reader) {
  const std::span<const Derive> table = origin_.op->derives();
  std::vector<Tensor> tensors(table.size());
  for (std::size_t i = 0; i < table.size(); ++i) {
    const SlotPtr& source = origin_.sources[i];
    if (!source) continue;
    const Shape& shape = origin_.shapes[i];
    tensors[i] =
        table[i].by_rows ? source->rows(begin, end, shape.back(), reader) : source->whole(reader).reshape(shape);
  }
  return tensors;
}

const Tensor& Slot::whole(Label reader) {
  if (!tensor_.defined()) {
    expect(settled_ && how_ == Hold::derive, "{} reads values of {} {}, of which {}", reader.text(), maker_.op.text(),
           maker_.path.text(), how_ == Hold::mask ? "only the signs were kept" : "nothing is kept");
    const AllocationScope scope({Purpose::transient, maker_.op, maker_.path});
    Tensor derived = Tensor::empty(shape_, dtype_, device_);
    if (derived.count() > 0)
      origin_.op->derive(source_rows(0, shape_.rows(), reader), shape_, 0, derived.row_range(0, derived.rows()));
    tensor_ = std::move(derived);
    version_ = tensor_.storage()->version();
    owner_ = tensor_.storage()->owner();
    release_origin();
    how_ = Hold::keep;
  }
  check_version(reader);
  return tensor_;
}

Tensor Slot::rows(std::int64_t begin, std::int64_t end, std::int64_t width, Label reader) {
  const std::int64_t own_width = shape_.back();
  const bool shared = users_.size() - left_ > 1;  // others will want it too: derive it once
  if (tensor_.defined() || how_ != Hold::derive || shared || begin * width % own_width != 0 ||
      end * width % own_width != 0)
    return whole(reader).reshape({shape_.count() / width, width}).leading(begin, end);
  const std::int64_t first = begin * width / own_width, last = end * width / own_width;
  const AllocationScope scope({Purpose::workspace, maker_.op, maker_.path});
  const Tensor derived = Tensor::empty({last - first, own_width}, dtype_, device_, Purpose::workspace);
  origin_.op->derive(source_rows(first, last, reader), shape_, first, derived);
  return derived.reshape({end - begin, width});
}

std::int64_t Slot::rows_at_once(std::int64_t width) const {
  const std::int64_t all = shape_.count() / width;
  if (tensor_.defined() || users_.size() - left_ > 1) return all;
  constexpr std::int64_t cache = 256 * 1024;  // bytes
  return std::clamp<std::int64_t>(cache / (width * size_of(dtype_)), 1, std::max<std::int64_t>(all, 1));
}

Signs Slot::signs(Label reader) {
  if (mask_.defined()) return {.values = {}, .bits = mask_};
  return {.values = whole(reader), .bits = {}};
}

void Slot::leave() {
  if (++left_ == users_.size()) free();
}

void Slot::free() {
  if (tensor_.defined() && !parameter_ && tensor_.storage()->owner().purpose == Purpose::saved)
    tensor_.storage()->assign(owner_);  // somebody else may still hold it
  tensor_ = {};
  mask_ = {};
  release_origin();
}

}  // namespace lacuna
