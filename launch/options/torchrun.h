// torchrun's command line in the words of `xoe run`.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/env.h"
#include "core/command_line/command.h"
#include "xoe/status.h"

namespace xoe::launch {

// What --nproc-per-node gpu, cpu and auto stand for on this host, and which Python runs scripts.
struct TorchrunFacts {
  int gpus = 0;
  int cores = 1;
  std::string python = "python";  // that runs scripts
};

struct TorchrunWords {
  std::vector<std::string> words = {};  // behind `xoe run`
  std::vector<std::string> notes = {};  // for the user: options without a meaning here
  bool help = false;
};

// `arguments` follow the word `torchrun`; options that they do not have may be variables PET_..., as for torchrun.
// `invalid_argument` names a mistake, `unsupported` what would not be the job that was asked for.
Result<TorchrunWords> translate_torchrun(std::span<const std::string_view> arguments, const Env& env,
                                         const TorchrunFacts& facts);

command_line::Command torchrun_command();

}  // namespace xoe::launch
