// xoe pool: a team shares a few GPUs.
#pragma once

namespace xoe::tools {

// What main() would be; returns the exit code.
int run_pool(int argc, char** argv);

}  // namespace xoe::tools
