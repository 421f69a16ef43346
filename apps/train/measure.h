// Training steps on made-up input: what `bench` times and `plan` predicts, in the same words.
#pragma once

#include "apps/train/setup.h"

#include <nlohmann/json_fwd.hpp>

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace lacuna::apps {

/// Bytes by the module whose op made the tensors, or by that op where there is no module; in the order of forward.
using BytesByPath = std::vector<std::pair<Label, std::int64_t>>;

/// Saved bytes by module, of the forward pass that saved the most.
class SavedByPath {
 public:
  /// A hook for steps on `device`: calls `note`. This outlives it.
  StepHooks hooks(Device device, Observer* observer = nullptr);
  /// After a forward pass.
  void note(Tape& tape, Device device);
  const BytesByPath& bytes() const { return bytes_; }

 private:
  std::int64_t most_ = 0;
  BytesByPath bytes_;
};

/// Parameters that are stored in one type.
struct StoredWeights {
  std::int64_t parameters = 0, bytes = 0;
};
using WeightsByType = std::map<std::string, StoredWeights>;
WeightsByType weights_by_type(const Setup& setup);

struct Measurement {
  std::string model;
  Device device = Device::cpu;
  std::string precision;
  std::int64_t batch_size = 0;
  int threads = 0;
  std::string policy;
  bool divides_anew = false;       // a run's measurements move bits between tensors, and with them the peak, a little
  std::optional<MemoryPlan> plan;  // of `auto`
  std::int64_t parameters = 0;
  std::int64_t trainable = 0;
  WeightsByType weights{};    // as `nf4`
  Bytes memory{};             // each purpose at its own highest; saved: at the end of the forward pass
  BytesByPath saved_by_path;  // what makes up `memory`'s saved
  // The next two count batches in the memory of the measured device, so none beside a GPU.
  std::int64_t batch = 0;     // bytes of the images and targets of a step,
  std::int64_t ahead = 0;     // and while they are prepared ahead of it: images are u8, nothing is mixed
  std::int64_t features = 0;  // bytes of cached features, on `meta`
  std::int64_t workers = 1;   // threads that prepare batches, each with a sample in its hands
  // The next two are of an evaluation, with as many samples as a micro-batch, or all that there are; on `meta`.
  std::int64_t evaluation_ahead = 0;  // bytes of a batch that is prepared ahead,
  std::int64_t evaluation_peak = 0;   // and the ledger's in the forward pass
  std::int64_t peak = 0;              // of a step: without batches that are prepared ahead
  std::vector<Held> at_peak;          // who held what then
  Owner brought_to_peak;              // whose bytes made it one
  std::int64_t process_peak = 0;      // 0 on `meta`
  std::vector<double> step_seconds;   // less what the policy measured in them, sorted; empty on `meta`
  double measuring_seconds = 0;       // that a measurement takes; 0 where none was made
  double measuring_share = 0;         // what measurements add to each step between two of them
};

/// A line of the weights' types; nothing where all are f32.
std::string weights_text(const WeightsByType& weights);

/// The figures that are known before anything is measured.
Measurement describe(const Experiment& experiment, const Setup& setup);

/// The micro-batches of a made-up step, or of a rank's part of it, in the form in which the loader hands on those of
/// the data set.
std::vector<Batch> example(const Experiment& experiment, const Setup& setup);

/// The micro-batches of a made-up step of `trainer`, and what a run holds on the device while it takes a captured one:
/// these, and those of the next step. Nothing is held where steps are not captured or texts are packed.
struct StepBatches {
  std::vector<Batch> parts, held;
};
StepBatches step_batches(const Experiment& experiment, const Setup& setup, const Trainer& trainer);

struct MeasureOptions {
  int warm_up = 0;
  int steps = 1;  // on `meta` one tells everything
  Observer* observer = nullptr;
};

/// Runs training steps of a built model on a made-up batch.
Measurement measure(Setup& setup, const Experiment& experiment, const MeasureOptions& options = {});
/// The same of a model that is built for it.
Measurement measure(const Experiment& experiment, Device device, const MeasureOptions& options = {});

struct EvaluationBytes {
  std::int64_t ahead = 0, peak = 0;  // of one batch that is prepared ahead, and at the highest
};
/// Runs an evaluation of one batch; the model evaluates afterwards.
EvaluationBytes measure_evaluation(Setup& setup, const Experiment& experiment);

/// Bytes of the batches and samples that a loader prefetches.
std::int64_t prepared_ahead(const std::vector<Held>& holders);
/// Fills in memory by purpose and the peak of a step, at whose start `account` was reset. `saved_bytes`: those at the
/// end of the forward pass. Batches prepared ahead are not counted.
void read_account(const Ledger& account, std::int64_t saved_bytes, Measurement& measurement);

/// Calibration time spread over the steps between two calibrations, which come every `Adaptive::calibrate_every()`
/// passes, rounded up to the first of the `accumulate` passes of a step.
double amortized(double measuring_seconds, const MemoryPolicy& policy, std::int64_t accumulate);
/// Fills in the seconds of `steps`, less what measuring took in them, and what `measurements` took.
void read_times(std::vector<double> steps, std::vector<double> measurements, const MemoryPolicy& policy,
                std::int64_t accumulate, Measurement& measurement);

/// Bytes held for backward when the total was at its peak.
std::int64_t saved_at_peak(const Measurement& measurement);
/// For what memory was taken when the peak came, as `conv2d of patch_embed.proj`.
std::string place_of_peak(const Measurement& measurement);

/// The documented keys.
nlohmann::ordered_json to_json(const Measurement& measurement);

/// Purposes by rows, measurements by columns; `titles` head the columns.
std::string memory_table(const std::vector<Measurement>& measurements, const std::vector<std::string>& titles);

}  // namespace lacuna::apps
