// xoe bench: measures training, collectives and scaling, and compares what was measured.
#include <csignal>
#include <cstdio>

#include "core/base/error.h"
#include "core/base/text.h"
#include "core/base/utf8.h"
#include "core/command_line/parse/answer_once.h"
#include "measure/cli/tf_cnn_flags.h"
#include "measure/cli/verbs/verbs.h"
#include "measure/cli/words.h"

namespace xoe::bench {

int failed(std::string_view verb, const Error& error) {
  // The end of a program's output in it has several lines.
  std::string text;
  for (const std::string& line : split_text(error.message(), '\n'))
    text += (text.empty() ? "" : "\n") + printable_utf8(line);
  fmt::print(stderr, "xoe bench {}: {}\n", verb, text);
  return error.code() == Code::kInvalidArgument ? tools::kUsageError : kFailed;
}

}  // namespace xoe::bench

int main(int argc, char** argv) {
  using namespace xoe::bench;
  std::signal(SIGXFSZ, SIG_IGN);
  std::signal(SIGPIPE, SIG_IGN);
  CLI::App app("Measures training, collectives and scaling, and compares results.", "xoe bench");
  app.require_subcommand(1);
  app.footer(
      "Examples:\n  xoe bench train --model resnet18 --batch-size 8 --num-batches 20\n"
      "  xoe bench collectives -b 8 -e 64M -f 4\n"
      "  xoe bench compare before.json after.json\n"
      "  xoe bench scale --ranks 1,2,4 -- --model resnet18\n"
      "\n`xoe bench VERB --help` tells more.");
  int code = 0;
  for (const AddVerb add : {add_train, add_collectives, add_compare, add_scale, add_predict, add_isolate, add_failures})
    add(app, argv, code);
  auto words = with_dashes({argv, argv + argc});
  // Before its flags, which only a build with libtorch knows, are taken for mistakes.
  if (words.size() > 1 && words[1] == "train")
    if (const xoe::Status there = has_train(); !there) return failed("train", there.error());
  auto line = translate_tf_cnn_flags(words);
  if (!line) return xoe::tools::usage_error("xoe bench train", line.error().message());
  words = std::move(line->words);
  if (const auto answer = xoe::tools::understand(app, static_cast<int>(words.size()), pointers_to(words).data()))
    return xoe::tools::answer_once(*answer);
  return code;
}
