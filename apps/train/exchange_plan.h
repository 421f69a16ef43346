// The predicted time of the gradient all-reduce.
#pragma once

#include "apps/config/experiment.h"
#include "autograd/plan/cost_table.h"

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <optional>
#include <string>

namespace lacuna::apps {

struct Network {
  double bandwidth = 1.25e8;  // bytes a second that a rank sends: 1 Gbit
  double latency = 5e-5;      // seconds of a message
};
/// Bytes a second from text as `1Gbit`, `10Gbit` or `12.5GB`; rejects anything else.
double parse_bandwidth(const std::string& text);
/// Seconds from text as `50us` or `1ms`; rejects anything else.
double parse_latency(const std::string& text);

struct ExchangePlan {
  int ranks = 1;
  std::int64_t gradients = 0;  // bytes of all
  std::int64_t sent = 0;       // bytes that a rank sends in a step
  std::int64_t buffers = 0;    // bytes that the exchange holds
  double seconds = 0;          // of the exchange on `network`
  Network network{};
  struct Overlap {
    double backward = 0;  // seconds of the backward pass that the exchange overlaps with, by the cost table
    double exposed = 0;   // seconds by which a step gets longer
  };
  std::optional<Overlap> overlap{};  // nothing on cuda: the cost table has times of a CPU
};

/// The plan of a resolved experiment on its ranks.
ExchangePlan plan_exchange(const Experiment& experiment, const Network& network, const CostTable& costs);

/// `bandwidth`: as it was given.
std::string to_text(const ExchangePlan& plan, const std::string& bandwidth);
nlohmann::ordered_json to_json(const ExchangePlan& plan);

}  // namespace lacuna::apps
