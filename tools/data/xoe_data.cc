// xoe data: makes, converts, checks and measures data sets.
#include <CLI/CLI.hpp>

#include "tools/data/verbs/verb.h"
#include "tools/data/verbs/verbs.h"

int main(int argc, char** argv) {
  using namespace xoe::tools;
  CLI::App app("Makes, converts, checks and measures data sets.", "xoe data");
  app.require_subcommand(1);
  int code = 0;
  for (const auto add : {add_make, add_convert, add_inspect, add_verify, add_stats, add_index, add_bench, add_compare})
    add(app, code);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : kUsageError;
  }
  return code;
}
