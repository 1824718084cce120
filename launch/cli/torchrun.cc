#include "launch/cli/torchrun.h"

#include <cstdio>
#include <vector>

#include "core/command_line/help.h"
#include "launch/cli/run.h"
#include "launch/cli/run_texts.h"
#include "launch/options/torchrun.h"
#include "launch/remote/program.h"
#include "launch/rendezvous/membership.h"

namespace xoe::tools {

int torchrun(std::span<const std::string_view> arguments) {
  const Env env = Env::process();
  const launch::MemberFacts host = launch::read_member_facts(env);
  const auto translated = launch::translate_torchrun(
      arguments, env, {.gpus = host.gpus, .cores = host.cores, .python = remote::python_program(env)});
  if (!translated) return fail(translated.error(), command_line::kUsageError);
  if (translated->help) return print(command_line::help_text(launch::torchrun_command()));
  for (const std::string& note : translated->notes) say(note);
  const std::vector<std::string_view> words(translated->words.begin(), translated->words.end());
  return run(words);
}

}  // namespace xoe::tools
