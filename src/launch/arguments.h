// The command line of `xoe run`. Read by hand: -np is no option that parsers of POSIX style understand, and the
// launcher's time to start is part of every job.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "launch/options.h"
#include "xoe/status.h"

namespace xoe::launch {

struct RunArguments {
  RunOptions options;
  std::string config_file = {};
  bool help = false;
};

// `arguments` follow the word `run`. Options end at the first word that is none, or at --; from there on
// everything belongs to the program. `invalid_argument` tells what is wrong, and the option that was meant if one is
// near.
Result<RunArguments> parse_run_arguments(std::span<const std::string_view> arguments);

std::string_view run_help() noexcept;

// The candidate that `word` was probably meant to be, or an empty text.
std::string_view nearest_word(std::string_view word, std::span<const std::string_view> candidates);

}  // namespace xoe::launch
