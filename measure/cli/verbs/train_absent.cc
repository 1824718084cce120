// Where Xoe is built without libtorch.
#include "measure/cli/verbs/verbs.h"

namespace xoe::bench {

void add_train(CLI::App& app, char** /*argv*/, int& /*code*/) {
  app.add_subcommand("train")->group("");  // known, so that has_train() is what answers, and in no list
}

Status has_train() {
  return failure(Code::kUnsupported, "this Xoe was built without libtorch; build it with -DXOE_WITH_TORCH=ON");
}

}  // namespace xoe::bench
