#include "models/generation.h"

#include "core/random.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace lacuna {
namespace {

constexpr double dropped = -std::numeric_limits<double>::infinity();

void penalize(double penalty, std::span<const std::int64_t> before, std::span<double> logits) {
  std::vector<bool> seen(logits.size());
  for (const std::int64_t token : before) {
    const auto i = static_cast<std::size_t>(token);
    if (seen[i]) continue;
    seen[i] = true;
    logits[i] = logits[i] > 0 ? logits[i] / penalty : logits[i] * penalty;
  }
}

/// Drops the tokens that would end a row of `count` tokens which is there already.
void drop_repeated(std::int64_t count, std::span<const std::int64_t> before, std::span<double> logits) {
  const std::int64_t length = std::ssize(before);
  if (length + 1 < count) return;
  const auto last = before.last(static_cast<std::size_t>(count - 1));
  for (std::int64_t i = 0; i + count <= length; ++i) {
    const auto row = before.subspan(static_cast<std::size_t>(i), static_cast<std::size_t>(count));
    if (std::ranges::equal(row.first(row.size() - 1), last)) logits[static_cast<std::size_t>(row.back())] = dropped;
  }
}

void keep_largest(std::int64_t count, std::span<double> logits) {
  if (count <= 0 || count >= std::ssize(logits)) return;
  std::vector<double> sorted(logits.begin(), logits.end());
  std::ranges::nth_element(sorted, sorted.begin() + (count - 1), std::greater());
  const double least = sorted[static_cast<std::size_t>(count - 1)];
  for (double& logit : logits)
    if (logit < least) logit = dropped;
}

std::vector<double> softmax(std::span<const double> logits) {
  const double largest = *std::ranges::max_element(logits);
  std::vector<double> result(logits.size());
  double sum = 0;
  for (std::size_t i = 0; i < logits.size(); ++i) sum += result[i] = std::exp(logits[i] - largest);
  for (double& one : result) one /= sum;
  return result;
}

/// Drops from the least probable on while those dropped have no more than 1 - share together; one stays.
void keep_share(double share, std::span<double> logits) {
  if (share >= 1) return;
  const std::vector<double> probabilities = softmax(logits);
  std::vector<std::size_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, {}, [&](std::size_t i) { return logits[i]; });
  double sum = 0;
  for (std::size_t i = 0; i + 1 < order.size(); ++i) {
    sum += probabilities[order[i]];
    if (sum > 1 - share) break;
    logits[order[i]] = dropped;
  }
}

void keep_probable(double share, std::span<double> logits) {
  if (share <= 0) return;
  const std::vector<double> probabilities = softmax(logits);
  const double least = share * *std::ranges::max_element(probabilities);
  for (std::size_t i = 0; i < logits.size(); ++i)
    if (probabilities[i] < least) logits[i] = dropped;
}

}  // namespace

void shape_logits(const Sampling& sampling, std::span<const std::int64_t> before, std::span<double> logits) {
  if (sampling.repetition_penalty != 1) penalize(sampling.repetition_penalty, before, logits);
  if (sampling.no_repeat_ngram > 0) drop_repeated(sampling.no_repeat_ngram, before, logits);
  if (!sampling.draws) return;
  if (sampling.temperature != 1)
    for (double& logit : logits) logit /= sampling.temperature;
  keep_largest(sampling.top_k, logits);
  keep_share(sampling.top_p, logits);
  keep_probable(sampling.min_p, logits);
}

std::int64_t next_token(const Sampling& sampling, std::span<const std::int64_t> before, std::span<double> logits,
                        std::uint32_t step) {
  if (std::ranges::any_of(logits, [](double logit) { return std::isnan(logit); }))
    fail("the model's logits are not finite behind token {}", before.empty() ? -1 : before.back());
  shape_logits(sampling, before, logits);
  if (!sampling.draws) return std::ranges::max_element(logits) - logits.begin();
  const std::vector<double> probabilities = softmax(logits);
  const RandomStream stream{.seed = sampling.seed, .step = step, .site = random_site("generation")};
  double left = stream.uniform(0);
  std::int64_t last = 0;
  for (std::size_t i = 0; i < probabilities.size(); ++i) {
    if (probabilities[i] <= 0) continue;
    last = static_cast<std::int64_t>(i);
    left -= probabilities[i];
    if (left < 0) break;
  }
  return last;
}

Generated generate(LanguageModel& model, std::span<const std::int64_t> prompt, const GenerationOptions& options,
                   const std::function<bool(std::int64_t)>& made) {
  if (prompt.empty()) reject("generation: expected a prompt of one token or more");
  if (options.sampling.draws && options.sampling.temperature <= 0)
    reject("generation: expected a temperature above 0 to draw tokens, got {}", options.sampling.temperature);
  const std::int64_t room = model.positions() - std::ssize(prompt);
  if (room < 0)
    reject("generation: the prompt has {} tokens, and the model {} positions", prompt.size(), model.positions());
  const std::int64_t most = std::min(options.most, room);
  KeyValueCache cache(model.layers(), std::ssize(prompt) + most);
  std::vector<std::int64_t> all(prompt.begin(), prompt.end());
  Generated result;
  while (std::ssize(result.tokens) < most) {
    std::vector<double> logits = model.read_rest(all, cache).to_vector();
    const std::int64_t token =
        next_token(options.sampling, all, logits, static_cast<std::uint32_t>(result.tokens.size()));
    if (std::ranges::find(options.stops, token) != options.stops.end()) {
      result.stopped = true;
      break;
    }
    result.tokens.push_back(token);
    all.push_back(token);
    if (made && !made(token)) break;
  }
  return result;
}

}  // namespace lacuna
