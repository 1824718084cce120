// xoe data: makes, converts, checks and measures data sets.
#include "core/command_line/parse/command_line.h"
#include "data/cli/verbs/verbs.h"

int main(int argc, char** argv) {
  using namespace xoe::tools;
  CLI::App app("Makes, converts, checks and measures data sets.", "xoe data");
  app.require_subcommand(1);
  app.footer(
      "Examples:\n  xoe data make --images 3000 --classes 10 data\n  xoe data verify --decode data\n"
      "  xoe data stats data\n\n`xoe data VERB --help` tells more.");
  int code = 0;
  for (const auto add : {add_make, add_make_xray, add_convert, add_inspect, add_verify, add_stats, add_index, add_bench,
                         add_compare, add_ledger})
    add(app, code);
  if (const auto answer = understand(app, argc, argv)) return tell(*answer);
  return code;
}
