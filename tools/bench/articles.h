// Published measurements, with which `xoe bench compare --against articles` compares.
#pragma once

#include <string_view>
#include <vector>

#include "tools/bench/measurement.h"

namespace xoe::bench {

// The files of tools/bench/articles.
extern const std::string_view kVirtualMachinesArticle;
extern const std::string_view kKubernetesArticle;

// All of them. `invalid_argument`: one is broken, which a test rules out.
Result<std::vector<MeasurementFile>> read_articles();

}  // namespace xoe::bench
