// Results as one HTML file that needs no network: page.html and Chart.js, with the data in it.
#pragma once

#include "apps/report/results.h"

#include <string>
#include <vector>

namespace lacuna::apps {

struct PageTitle {
  std::string title;
  std::string subtitle;
  std::string csv;  // the file beside the page with all figures; empty: none
};

/// The page of `results`, whose rows are those of `table`. Results with a run folder show its curves, configuration and
/// record.
std::string to_html(const PageTitle& title, const std::vector<Result>& results, const Table& table);

}  // namespace lacuna::apps
