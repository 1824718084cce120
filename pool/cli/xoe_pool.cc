#include "pool/cli/xoe_pool.h"

#include <csignal>

#include <fmt/format.h>

#include "core/base/text.h"
#include "core/base/utf8.h"
#include "core/command_line/parse/command_line.h"
#include "pool/cli/verbs.h"

namespace xoe::tools {
namespace {

constexpr const char* kFooter = R"(Examples:
  xoe pool serve                             start a pool
  xoe pool agent                             on each host with GPUs
  xoe pool run --gpus 1 -- python train.py   acquire, run, release
  xoe pool status                            who has what, who waits and why

Exit codes: 0 done, 1 refused, 2 wrong usage, 3 no GPU to give now, 4 not
allowed, 5 the pool does not answer; of `run`, those of its program.

`xoe pool VERB --help` tells more.)";

// A mistake, which may quote words of the command line.
std::string shown_line(std::string_view text) { return xoe::printable_utf8(xoe::trimmed(text)) + "\n"; }

}  // namespace

int run_pool(int argc, char** argv) {
  std::signal(SIGXFSZ, SIG_IGN);
  std::signal(SIGPIPE, SIG_IGN);
  CLI::App app("Shares the GPUs of a team without conflicts.", "xoe pool");
  app.footer(kFooter);
  app.require_subcommand(1);
  int code = 0;
  for (const auto add : {pool::add_serve, pool::add_agent, pool::add_lease_verbs, pool::add_run, pool::add_status_verbs,
                         pool::add_admin_verbs, pool::add_vsphere, pool::add_slurm})
    add(app, code);
  try {
    if (auto answer = understand(app, argc, argv)) {
      if (answer->code != 0) answer->text = shown_line(answer->text);
      return tell(*answer);
    }
  } catch (const pool::Json::exception& error) {
    fmt::print(stderr, "xoe pool: the server is of another version: its answer is not understood: {}\n", error.what());
    return pool::kFailed;
  }
  return code;
}

}  // namespace xoe::tools
