#include "data/images/intact.h"

#include "core/error.h"
#include "core/parallel.h"
#include "data/images/image_reader.h"

#include <map>
#include <mutex>
#include <utility>

namespace lacuna {
namespace {

class Chosen final : public Dataset {
 public:
  Chosen(DatasetPtr source, std::vector<std::int64_t> indices)
      : Dataset(of_size(source->info(), std::ssize(indices))),
        source_(std::move(source)),
        indices_(std::move(indices)) {}

  std::int64_t label(std::int64_t index) const override {
    return source_->label(indices_[static_cast<std::size_t>(index)]);
  }

 private:
  static DatasetInfo of_size(DatasetInfo info, std::int64_t size) {
    info.size = size;
    return info;
  }
  void read_sample(std::int64_t index, Sample& sample) const override {
    source_->read(indices_[static_cast<std::size_t>(index)], sample);
  }

  DatasetPtr source_;
  std::vector<std::int64_t> indices_;  // of the source
};

}  // namespace

IntactImages intact_images(DatasetPtr source) {
  std::mutex mutex;  // guards the two below
  std::map<std::int64_t, std::string> damaged;
  std::exception_ptr error;
  const std::int64_t tasks = threads();  // within, it is one
  parallel_tasks(tasks, [&](std::int64_t task, std::int64_t) {
    const std::int64_t begin = source->size() * task / tasks, end = source->size() * (task + 1) / tasks;
    Sample sample;
    for (std::int64_t i = begin; i < end; ++i) {
      try {
        sample.begin(0);
        source->read(i, sample);
        const Tensor& file = sample["encoded"];
        const auto reader = open_image({file.data<const std::uint8_t>(), static_cast<std::size_t>(file.count())});
        reader->read({.height = reader->height(), .width = reader->width()}, [](const std::uint8_t*) {});
      } catch (const DamagedSample& what) {
        const std::scoped_lock lock(mutex);
        damaged[i] = fmt::format("{}: {}", sample.origin, what.what());
      } catch (...) {
        const std::scoped_lock lock(mutex);
        if (!error) error = std::current_exception();
        return;
      }
    }
  });
  if (error) std::rethrow_exception(error);
  IntactImages result{.images = source, .damaged = {}};
  if (damaged.empty()) return result;
  std::vector<std::int64_t> intact;
  for (std::int64_t i = 0; i < source->size(); ++i)
    if (!damaged.contains(i)) intact.push_back(i);
  for (auto& [index, text] : damaged) result.damaged.push_back(std::move(text));
  if (intact.empty()) reject("all {} images are damaged. The first: {}", source->size(), result.damaged.front());
  result.images = std::make_shared<Chosen>(std::move(source), std::move(intact));
  return result;
}

}  // namespace lacuna
