// xoe bench train: understands its command line, and becomes xoe-bench-trainer.
#include <unistd.h>

#include <memory>

#include "core/base/error.h"
#include "core/command_line/parse/answer_once.h"
#include "measure/cli/train_flags.h"
#include "measure/cli/verbs/verbs.h"
#include "measure/cli/words.h"

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
