// What stages tell about a pipeline, in words: the part of explain() and to_table() that knows stages.
#pragma once

#include <string>

#include "xoe/data/report.h"

namespace xoe::data {

constexpr double kFed = 0.02;  // share of stalling up to which a consumer counts as fed

// REQUIRES: report.stages is not empty.
std::string explain_stages(const PipelineReport& report);
std::string stage_table(const PipelineReport& report);

}  // namespace xoe::data
