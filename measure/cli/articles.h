// Published measurements, with which `xoe bench compare --against articles` compares.
#pragma once

#include <string_view>
#include <vector>

#include "measure/cli/measurement.h"

namespace xoe::bench {

// The files of measure/cli/articles.
extern const std::string_view kVirtualMachinesArticle;
extern const std::string_view kKubernetesArticle;

// All of them. `invalid_argument`: one is broken, which a test rules out.
Result<std::vector<MeasurementFile>> read_articles();

}  // namespace xoe::bench
