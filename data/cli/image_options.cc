#include "data/cli/image_options.h"

namespace xoe::tools {

void add_max_bad_option(CLI::App& app, std::int64_t& max_bad, const std::string& description) {
  app.add_option("--max-bad", max_bad, description)->check(CLI::NonNegativeNumber)->default_str("0");
  for (const char* before : {"--max-bad-images", "--skip-bad"})  // not in the help
    app.add_option(before, max_bad, description)->check(CLI::NonNegativeNumber)->group("");
}

}  // namespace xoe::tools
