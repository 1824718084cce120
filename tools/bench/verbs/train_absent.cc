// Where Xoe is built without libtorch.
#include "tools/bench/verbs/verbs.h"

namespace xoe::bench {

void add_train(CLI::App& app, char** /*argv*/, int& /*code*/) {
  app.add_subcommand("train", "images/s of training (this Xoe was built without libtorch)");
}

Status has_train() {
  return failure(Code::kUnsupported, "this Xoe was built without libtorch; build it with -DXOE_WITH_TORCH=ON");
}

}  // namespace xoe::bench
