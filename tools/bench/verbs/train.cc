// xoe bench train: understands its command line, and becomes xoe-bench-trainer.
#include <unistd.h>

#include <memory>

#include "base/error.h"
#include "tools/answer_once.h"
#include "tools/bench/programs.h"
#include "tools/bench/train_flags.h"
#include "tools/bench/verbs/verbs.h"

namespace xoe::bench {

void add_train(CLI::App& app, char** argv, int& code) {
  const auto flags = std::make_shared<TrainFlags>();
  add_train_verb(app, *flags)->callback([flags, argv, &code] {
    if (const Status complete = complete_flags(*flags); !complete) {
      code = tools::usage_error("xoe bench train", complete.error().message());
      return;
    }
    const std::string program = program_beside("xoe-bench-trainer");
    ::execv(program.c_str(), argv);
    code = failed("train", Error(Code::kUnavailable, fmt::format("cannot run {}: {}", program, errno_text(errno))));
  });
}

Status has_train() { return {}; }

}  // namespace xoe::bench
