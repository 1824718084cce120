// Where a test finds what was built for it and what the source tree holds. ctest says it in the environment and not the
// compiler in a definition: thus a test is compiled alike in every checkout, and the compiler's cache serves all of
// them.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <string>

namespace xoe {

inline std::string path_under(const char* variable, const std::string& name) {
  const char* const folder = std::getenv(variable);
  if (folder == nullptr) {
    std::fprintf(stderr, "%s is not set; run the test through ctest\n", variable);
    std::abort();
  }
  return std::string(folder) + "/" + name;
}

// In the folder of built test programs and libraries.
inline std::string built_file(const std::string& name) { return path_under("XOE_TEST_DIR", name); }

// In the folder of built commands.
inline std::string built_command(const std::string& name) { return path_under("XOE_BIN_DIR", name); }

// In the source tree, from its root.
inline std::string source_file(const std::string& path) { return path_under("XOE_SOURCE_DIR", path); }

}  // namespace xoe
