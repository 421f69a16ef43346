#include "apps/config/open_samples.h"

#include "apps/config/resolve.h"
#include "apps/output.h"
#include "data/images/intact.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

namespace lacuna::apps {

DatasetPtr open_samples(const Configuration& resolved, Split split) {
  const Configuration::Data& data = resolved.data;
  DatasetPtr all = open_dataset(data.name, dataset_options(resolved, split));
  if (data.broken != "skip") return all;
  const SampleFields& fields = all->info().fields;
  if (std::ranges::find(fields, "encoded", &SampleField::name) == fields.end())
    reject("data.broken: expected error, since the data set {} has no image files; got skip", data.name);
  const std::int64_t files = all->size();
  auto [intact, damaged] = intact_images(std::move(all));
  if (!damaged.empty())
    print_error(fmt::format("lacuna: warning: {} of {} files for {} are damaged and left out:\n  {}\n", damaged.size(),
                            files, split == Split::train ? "training" : "evaluation", fmt::join(damaged, "\n  ")));
  return intact;
}

}  // namespace lacuna::apps
