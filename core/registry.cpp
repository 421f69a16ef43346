#include "core/registry.h"

#include "core/text.h"

#include <algorithm>
#include <cctype>
#include <numeric>
#include <tuple>
#include <utility>

namespace lacuna {
namespace {

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);  // [|b| + 1]: distances of a's prefix to b's prefixes
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i + 1;
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t substituted = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({substituted, row[j] + 1, row[j + 1] + 1});
    }
  }
  return row.back();
}

/// The edit distance; a missing suffix of `known` counts as one edit unless `name` is very short.
std::size_t distance_to(std::string_view name, std::string_view known) {
  constexpr std::size_t telling = 4;
  const std::size_t whole = edit_distance(name, known);
  if (name.size() < telling || known.size() <= name.size()) return whole;
  return std::min(whole, edit_distance(name, known.substr(0, name.size())) + 1);
}

/// Names in other libraries, and the names here.
constexpr std::pair<std::string_view, std::string_view> other_names[] = {
    {"gpu", "cuda"},
    {"batch", "batch_size"},
    {"bs", "batch_size"},
    {"num_epochs", "epochs"},
    {"num_train_epochs", "epochs"},
    {"max_steps", "steps"},
    {"learning_rate", "lr"},
    {"wd", "weight_decay"},
    {"gradient_accumulation_steps", "accumulate"},
    {"grad_accum", "accumulate"},
    {"max_grad_norm", "clip_norm"},
    {"num_workers", "workers"},
    {"opt", "optimizer"},
    {"sched", "schedule"},
    {"scheduler", "schedule"},
    {"dtype", "precision"},
    {"dataset", "data"},
    {"num_labels", "num_classes"},
    {"img_size", "image_size"},
    {"max_seq_len", "max_length"},
    {"output_dir", "output"},
};

/// A name of another library, as `bert-base-uncased`, in our spelling.
std::string as_written_here(std::string_view name) {
  std::string here = lower_case(std::string(name));
  std::ranges::replace(here, '-', '_');
  constexpr std::string_view usual = "_uncased";
  if (here.ends_with(usual)) here.resize(here.size() - usual.size());
  for (const auto& [other, ours] : other_names)
    if (here == other) here = ours;
  return here;
}

}  // namespace

std::string nearest_name(std::string_view name, const std::vector<std::string>& known) {
  if (std::string same = as_written_here(name); std::ranges::find(known, same) != known.end()) return same;
  std::string best;
  // Distance; false for candidates that begin with the name; length.
  std::tuple<std::size_t, bool, std::size_t> least{std::max<std::size_t>(2, name.size() / 3) + 1, false, 0};
  const std::string wanted = lower_case(std::string(name));
  for (const std::string& candidate : known) {
    const std::string here = lower_case(candidate);
    if (const std::tuple at{distance_to(wanted, here), !here.starts_with(wanted), here.size()}; at < least) {
      least = at;
      best = candidate;
    }
  }
  return best;
}

}  // namespace lacuna
