#include "measure/cli/train_child.h"

#include <filesystem>

#include "core/base/error.h"
#include "core/base/random_token.h"
#include "measure/cli/programs.h"

namespace xoe::bench {

Result<TrainChild> TrainChild::start(const TrainChildOptions& options) {
  XOE_ASSIGN(const std::string token, random_token());
  std::error_code ignored;
  std::string output = std::filesystem::temp_directory_path(ignored) / fmt::format("xoe-bench-{}.result", token);
  std::vector<std::string> words = {program_beside("xoe"), "run", "--no-panel", "-np", fmt::to_string(options.ranks)};
  if (options.hosts.empty()) {
    words.emplace_back("--oversubscribe");
  } else {
    words.insert(words.end(), {"-H", options.hosts});
  }
  words.insert(words.end(), {program_beside("xoe-bench"), "train", "--output", output});
  words.insert(words.end(), options.flags.begin(), options.flags.end());
  XOE_ASSIGN(Child child, Child::start(words, options.child));
  return TrainChild(std::move(child), std::move(output));
}

Result<TrainResult> TrainChild::finish() {
  XOE_TRY(child_.wait());
  return read_train_result(output_);
}

TrainChild::~TrainChild() {
  std::error_code ignored;
  if (!output_.empty()) std::filesystem::remove(output_, ignored);
}

}  // namespace xoe::bench
