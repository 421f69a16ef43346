// Training samples of text: their tokens, those that are learned, and their text.
#pragma once

#include "apps/config/experiment.h"

#include <string>

namespace lacuna::apps {

/// Characters of HTML escaped.
std::string for_html(const std::string& text);
/// HTML of the first samples of a data set of tokens. Tokens with a label of their own are marked.
std::string text_samples(const Experiment& experiment, const Dataset& dataset);

}  // namespace lacuna::apps
