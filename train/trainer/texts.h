// The lines and JSON objects that a run prints and writes.
#pragma once

#include <string>

#include "train/trainer/events.h"

namespace xoe::train {

// A table: step, images/s of all ranks and their uncertainty, loss, accuracy, shares of the time.
std::string resized_lines(const Resized& resized);
std::string report_header();
std::string report_line(const Report& report);
std::string evaluation_line(const Evaluation& evaluation);
std::string start_lines(const RunStart& start);
// Ends with "total images/sec: N".
std::string outcome_lines(const Outcome& outcome);
// "demo: accuracy=... images_per_s=... curve=... timeline=..."
std::string summary_line(const std::string& name, const Outcome& outcome);

// One object on one line, with an "event" member: docs/reference/train.md.
std::string start_json(const RunStart& start);
std::string resized_json(const Resized& resized);
std::string report_json(const Report& report);
std::string evaluation_json(const Evaluation& evaluation);
std::string outcome_json(const Outcome& outcome);

}  // namespace xoe::train
