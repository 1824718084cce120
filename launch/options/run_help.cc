#include "launch/options/run_help.h"

#include "core/base/text.h"
#include "launch/options/option_table.h"

namespace xoe::launch {
namespace {

constexpr const char* kFooter = R"(horovodrun's options are understood too; those without a meaning here say why.

Rank 0 reads stdin. When a rank fails the others are ended, and the exit code is
that of the rank that failed first (128 + number for a signal). Ctrl-C is passed
on; a second one kills.

Examples:
  xoe run -np 2 xoe train --model resnet18 --synthetic
  xoe run -np 4 --output-dir logs python train.py --epochs 10
  xoe run -H nodeA:4,nodeB:4 --check python train.py
  xoe run -H nodeA:4,nodeB:4 --bind-to core python train.py
  xoe run --pool --gpus 2:8 --wait python train.py
  xoe run --rendezvous auto -- python train.py     (on every host, or in every pod)

Exit codes: 0 all ranks ended well, N the first rank that failed, 2 wrong usage,
124 the time limit, 125 the launcher failed or a host was lost, 126 and 127 the
program cannot be run or is not there, 128 + N signal N. With --rendezvous also
75 retry here, 76 retry elsewhere.)";

}  // namespace

command_line::Command run_command() {
  command_line::Command command{.name = "xoe run",
                                .what = "starts a program as several ranks, on this machine or on several hosts.",
                                .usage = "-np N [options] PROGRAM [arguments of the program]",
                                .footer = kFooter};
  for (const Option& option : all_options()) {
    command_line::Argument& argument = command.options.emplace_back();
    for (const std::string_view name : option.names)
      if (!name.empty()) argument.names.emplace_back(name);
    argument.value = option.value;
    if (!option.choices.empty()) argument.choices = split_text(option.choices, '|');
    argument.what = option.what;
    argument.group = option.group;
  }
  return command;
}

}  // namespace xoe::launch
