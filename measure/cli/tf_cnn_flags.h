// tf_cnn_benchmarks' flags on the command line of `xoe bench train`: what each of them becomes there, or why it has no
// meaning, or why the run would not be the one that was asked for.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "xoe/status.h"

namespace xoe::bench {

// Values by the names of flags, with "_", as a command line has them; of a switch "true" or "false".
using TfCnnValues = std::map<std::string, std::string, std::less<>>;

// What a flag and its value become: words of `xoe bench train`, and a line for the user, which may be empty.
struct TfCnnWords {
  std::vector<std::string> words = {};
  std::string note = {};
};

struct TfCnnFlag {
  enum class Form : std::uint8_t { kSwitch, kValue };
  enum class Answer : std::uint8_t {
    kOwn,      // `xoe bench train` has it
    kBecomes,  // other words, which `convert` makes; `text` names them
    kIgnored,  // `text` says why it has no meaning here
    kRefused,  // `text` says what to do in its place
  };
  std::string_view name;  // with "_"
  Form form;
  Answer answer;
  std::string_view text = {};
  std::string_view silent = {};  // values between "|" that ask for nothing else than what happens anyway
  Result<TfCnnWords> (*convert)(const std::string& value, const TfCnnValues& all) = nullptr;
};

// All of them, by name.
std::span<const TfCnnFlag> tf_cnn_flags() noexcept;

struct TfCnnLine {
  std::vector<std::string> words = {};  // for the parser of `xoe bench train`
  std::vector<std::string> notes = {};  // a line for each flag that is ignored, without its end
};
// Translates the words of a command line whose second word is `train`; others stay as they are, as do words that are no
// flag of tf_cnn_benchmarks. Names have - or _; a switch is --NAME, --noNAME, or --NAME=true and the like.
// `invalid_argument`: a flag is refused, or its value; the message names it.
Result<TfCnnLine> translate_tf_cnn_flags(const std::vector<std::string>& words);

// The network that tf_cnn_benchmarks' name for one means here: its own name for most. `invalid_argument`: there is
// none; with the names that are near.
Result<std::string> network_of_tf_cnn(std::string_view name);

}  // namespace xoe::bench
