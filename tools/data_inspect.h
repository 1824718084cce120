// `xoe data inspect`: what is in a TFRecord file.
#pragma once

#include <cstdint>
#include <string>

namespace xoe::tools {

struct InspectOptions {
  std::string file;
  std::int64_t records = 3;  // shown one by one
  bool json = false;
};

// Prints to stdout; an error to stderr. Returns the exit code.
int inspect(const InspectOptions& options);

}  // namespace xoe::tools
