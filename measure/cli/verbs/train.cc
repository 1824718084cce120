// xoe bench train: understands its command line, and becomes xoe-bench-trainer.
#include <memory>

#include "core/command_line/parse/answer_once.h"
#include "measure/cli/train_flags.h"
#include "measure/cli/verbs/verbs.h"
#include "measure/cli/words.h"
#include "train/cli/trainer_program.h"

namespace xoe::bench {

void add_train(CLI::App& app, char** argv, int& code) {
  const auto flags = std::make_shared<TrainFlags>();
  add_train_verb(app, *flags)->callback([flags, argv, &code] {
    if (const Status complete = complete_flags(*flags); !complete) {
      code = tools::usage_error("xoe bench train", complete.error().message());
      return;
    }
    code = failed("train", train::become_trainer("xoe-bench-trainer", argv));
  });
}

Status has_train() { return {}; }

}  // namespace xoe::bench
