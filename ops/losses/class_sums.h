// The softmax over many classes of rows whose logits exist for some classes at a time: running sums that are scaled
// down when a larger logit comes, as attention has them over blocks of keys (Milakov and Gimelshein 2018, "Online
// normalizer calculation for softmax"; Dao et al. 2022, "FlashAttention").
#pragma once

#include "core/kernel.h"

#include <cstdint>

namespace lacuna {

class Tensor;

/// Rows of the running sums [4, n], in the compute type of the logits.
enum class ClassSum : std::int64_t {
  largest,       // logit so far; -infinity at first
  exponentials,  // Σ e^(logit - largest)
  logits,        // Σ logit
  of_label,      // the label's logit; NaN if the label is not one of the classes
};
inline constexpr std::int64_t class_sum_count = 4;

struct ClassTargets {
  std::int64_t classes, ignored;  // in all; the label of a row that counts nothing
  double label_smoothing, soft_cap;
};

/// Adds logits [n, b] of the classes from `first` on to `sums` [4, n]. With `gradient` they become
/// e^(logit - largest) · (derivative of the soft cap), 0 in rows that count nothing, and rows of `running` [n, K], what
/// the classes before gave, are scaled to the new largest logit; running is undefined for the first classes.
/// labels: i64 [n].
inline constinit Kernel<void(const ClassTargets&, std::int64_t first, bool gradient, const Tensor& labels,
                             const Tensor& logits, const Tensor& sums, const Tensor& running)>
    absorb_classes{"linear_cross_entropy"};
/// Copies row `label - first` of `weight` [b, K] to each row of `rows` [n, K] whose label is among these classes.
inline constinit Kernel<void(std::int64_t first, const Tensor& labels, const Tensor& weight, const Tensor& rows)>
    take_label_rows{"linear_cross_entropy: weights of labels"};
/// Adds the losses of the rows to `sum` f64 [].
inline constinit Kernel<void(const ClassTargets&, const Tensor& labels, const Tensor& sums, const Tensor& sum)>
    add_class_losses{"linear_cross_entropy: losses"};
/// The gradient of scale [] · (sum of the losses) with respect to the rows: `to` [n, K], in any float type, from
/// `running` [n, K] and the weights of their labels [n, K]. Without label smoothing.
inline constinit Kernel<void(const ClassTargets&, const Tensor& scale, const Tensor& labels, const Tensor& sums,
                             const Tensor& running, const Tensor& of_labels, const Tensor& to)>
    class_gradient{"linear_cross_entropy: gradient"};

}  // namespace lacuna
