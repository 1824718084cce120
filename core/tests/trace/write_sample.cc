// Writes the sample traces: trace_sample PREFIX [STEPS]
#include <cstdio>
#include <cstdlib>

#include "core/tests/trace/sample_run.h"

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fputs("usage: trace_sample PREFIX [STEPS]\n", stderr);
    return 2;
  }
  xoe::trace::test::SampleOptions options;
  if (argc > 2) options.steps = std::max(1, std::atoi(argv[2]));
  const auto paths = xoe::trace::test::write_sample(argv[1], options);
  for (const auto& path : paths) std::puts(path.c_str());
  return paths.empty() ? 1 : 0;
}
