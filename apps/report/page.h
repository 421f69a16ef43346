// Results as one HTML file that needs no network: apps/page.html, with the data in it.
#pragma once

#include "apps/report/results.h"

#include <string>
#include <vector>

namespace lacuna::apps {

struct PageTitle {
  std::string title;
  std::string subtitle;
  std::string csv;  // the file beside the page with all figures as they are; empty where there is none
};

/// Charts and a table of `results`. Those that have a run folder show its loss curves.
std::string to_html(const PageTitle& title, const std::vector<Result>& results);

}  // namespace lacuna::apps
