// Answers to a command line that all ranks of a job share.
#pragma once

#include <string_view>

#include "core/command_line/parse/command_line.h"

namespace xoe::tools {

// Whether this process is rank 0 of its job, or in no job.
bool first_of_job();
// Prints on rank 0 and returns the code. The other ranks leave a mistake to rank 0, which may start late: launchers end
// all ranks as soon as one has failed, so they wait for that.
int answer_once(const Answer& answer);
// A mistake that only the program `name` sees: "xoe train: MESSAGE".
int usage_error(std::string_view name, std::string_view message);

}  // namespace xoe::tools
