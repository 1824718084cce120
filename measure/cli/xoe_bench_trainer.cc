// xoe-bench-trainer: `xoe bench train`, once xoe-bench has understood the command line; loading libtorch takes a
// second.
#include <fmt/format.h>

#include <csignal>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "core/base/env.h"
#include "core/base/freed_memory.h"
#include "core/base/utf8.h"
#include "core/command_line/parse/answer_once.h"
#include "measure/cli/output_flags.h"
#include "measure/cli/tf_cnn_flags.h"
#include "measure/cli/train_flags.h"
#include "measure/cli/train_page.h"
#include "measure/cli/train_runs.h"
#include "measure/cli/words.h"

namespace {

using namespace xoe;

constexpr int kFailed = 1;

int failed(const Error& error) {
  fmt::print(stderr, "error: {}\n", printable_utf8(error.to_string()));
  return kFailed;
}

void print_line(std::string_view line) {
  fmt::print("{}{}", line, line.ends_with('\n') ? "" : "\n");
  std::fflush(stdout);
}

int tell(const bench::TrainFlags& flags, const bench::MeasuredTraining& measured) {
  const bench::TrainResult& result = measured.result;
  const Status told = bench::put_out(flags.out, bench::summary_lines(result), bench::to_json(result), [&measured] {
    return bench::train_page(measured.result, measured.timeline ? &*measured.timeline : nullptr);
  });
  return told ? 0 : failed(told.error());
}

// together: whether all ranks have the same error.
int failed_rank(const Error& error, Communicator& comm, bool together) {
  together = together && error.code() != Code::kPeerLost && error.code() != Code::kTimeout;
  if (!together || comm.rank() == 0) (void)failed(error);
  // So that no rank ends, and is taken for the culprit, before rank 0 has said why.
  if (together) (void)comm.barrier({.timeout = std::chrono::seconds(1)});
  return kFailed;
}

int run(bench::TrainFlags& flags) {
  auto comm = init();
  if (!comm) return failed(comm.error());
  if (const Status settled = bench::settle_flags(flags, *comm); !settled)
    return failed_rank(settled.error(), *comm, /*together=*/true);
  bool failed_together = false;
  const auto print = [&flags](std::string_view line) {
    if (!flags.out.json) print_line(line);
  };
  const auto result = bench::run_training(flags, *comm, print, failed_together);
  if (!result) return failed_rank(result.error(), *comm, failed_together);
  return comm->rank() == 0 ? tell(flags, *result) : 0;
}

}  // namespace

int main(int argc, char** argv) {
  std::signal(SIGXFSZ, SIG_IGN);
  std::signal(SIGPIPE, SIG_IGN);
  if (const auto kept = keep_freed_memory(Env::process()); !kept) return failed(kept.error());
  CLI::App app("Measures.", "xoe bench");
  bench::TrainFlags flags;
  bench::add_train_verb(app, flags);
  const auto line = bench::translate_tf_cnn_flags(bench::with_dashes({argv, argv + argc}));
  if (!line) return tools::usage_error("xoe bench train", line.error().message());
  const auto words = bench::pointers_to(line->words);
  if (const auto answer = tools::understand(app, static_cast<int>(words.size()), words.data()))
    return tools::answer_once(*answer);
  if (const Status complete = bench::complete_flags(flags); !complete)
    return tools::usage_error("xoe bench train", complete.error().message());
  if (tools::first_of_job())
    for (const std::string& note : line->notes) fmt::print(stderr, "xoe bench train: {}\n", printable_utf8(note));
  return run(flags);
}
