#include "core/command_line/completion.h"

#include <algorithm>
#include <functional>

#include "core/base/error.h"
#include "core/base/text.h"

namespace xoe::command_line {
namespace {

// What a value is, in the word that the scripts know: "@file", "@dir", "@any" or the choices; empty: there is none.
std::string values_of(const Argument& argument) {
  if (!argument.choices.empty()) return fmt::format("{}", fmt::join(argument.choices, " "));
  if (argument.value.empty()) return {};
  static constexpr std::string_view kFolders[] = {"DIR", "TO", "FROM"};
  static constexpr std::string_view kFiles[] = {"FILE", "FILES", "PATH", "OUT"};
  if (std::ranges::find(kFolders, argument.value) != std::end(kFolders)) return "@dir";
  if (std::ranges::find(kFiles, argument.value) != std::end(kFiles)) return "@file";
  return "@any";
}

// In single quotes, for all three shells.
std::string in_quotes(std::string_view text) {
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? "" : std::string(1, c);
  return out + "'";
}

// The first clause: what fits beside a word.
std::string summary(std::string_view what) {
  const auto end = std::min(what.find_first_of(";:("), what.size());
  return std::string(trimmed(what.substr(0, end)));
}

void for_each_command(const Command& command, const std::function<void(const Command&)>& visit) {
  visit(command);
  for (const Command& verb : command.verbs) for_each_command(verb, visit);
}

std::string last_word(const std::string& name) { return name.substr(name.rfind(' ') + 1); }

std::string operand_values(const Command& command) {
  return command.operands.empty() ? std::string() : values_of(command.operands.back());
}

// bash and zsh: from a command and one of its options to the option's values, in `reply`.
std::string value_table(const Command& root) {
  std::string out;
  for_each_command(root, [&out](const Command& command) {
    for (const Argument& option : command.options) {
      const std::string values = values_of(option);
      if (values.empty()) continue;
      std::vector<std::string> patterns;
      for (const std::string& name : option.names) patterns.push_back(in_quotes(command.name + " " + name));
      out += fmt::format("    {}) reply={} ;;\n", fmt::join(patterns, "|"), in_quotes(values));
    }
  });
  return out;
}

std::string operand_table(const Command& root) {
  std::string out;
  for_each_command(root, [&out](const Command& command) {
    if (const std::string values = operand_values(command); !values.empty())
      out += fmt::format("    {}) reply={} ;;\n", in_quotes(command.name), in_quotes(values));
  });
  return out;
}

// Names with `separator` and what they do behind it, or names alone.
std::string word_table(const Command& root, bool verbs, bool described) {
  std::string out;
  for_each_command(root, [&](const Command& command) {
    std::vector<std::string> words;
    const auto add = [&](const std::string& name, const std::string& what) {
      words.push_back(described ? in_quotes(name + ":" + summary(what)) : name);
    };
    for (const Command& verb : command.verbs)
      if (verbs) add(last_word(verb.name), verb.what);
    for (const Argument& option : command.options)
      for (const std::string& name : option.names)
        if (!verbs) add(name, option.what);
    if (words.empty()) return;
    const std::string all = fmt::format("{}", fmt::join(words, " "));
    out += fmt::format("    {}) {} ;;\n", in_quotes(command.name),
                       described ? fmt::format("entries=({})", all) : "reply=" + in_quotes(all));
  });
  return out;
}

// bash and zsh: a function that looks its word up in a table.
std::string function(std::string_view name, std::string_view unknown, const std::string& table) {
  return fmt::format("_ROOT_{}() {{\n  {}\n  case \"$1\" in\n{}  esac\n}}\n", name, unknown, table);
}

using Places = std::vector<std::pair<std::string_view, std::string>>;  // a mark in a script, and what stands there

std::string filled(std::string text, const Command& root, const Places& places) {
  for (const auto& [mark, part] : places)
    if (const auto at = text.find(mark); at != std::string::npos) text.replace(at, mark.size(), part);
  for (auto at = text.find("ROOT"); at != std::string::npos; at = text.find("ROOT")) text.replace(at, 4, root.name);
  return text;
}

std::string with_functions(const char* script, const Command& root, bool described) {
  const std::string_view none = described ? "entries=()" : "reply=";
  return filled(script, root,
                {{"@VALUES@\n", function("values", "reply=", value_table(root))},
                 {"@OPERANDS@\n", function("operands", "reply=", operand_table(root))},
                 {"@VERBS@\n", function("verbs", none, word_table(root, true, described))},
                 {"@NAMES@\n", function("names", "reply=", word_table(root, true, false))},
                 {"@OPTIONS@\n", function("options", none, word_table(root, false, described))}});
}

constexpr const char* kBash = R"bash(# Completion of ROOT in bash, as `ROOT completion bash` prints it.
@VALUES@
@OPERANDS@
@VERBS@
@OPTIONS@
_ROOT() {
  local command=ROOT pending= word reply i cur=${COMP_WORDS[COMP_CWORD]}
  COMPREPLY=()
  for ((i = 1; i < COMP_CWORD; ++i)); do
    word=${COMP_WORDS[i]}
    if [[ $word == = ]]; then continue; fi
    if [[ -n $pending ]]; then pending=; continue; fi
    if [[ $word == -* ]]; then
      _ROOT_values "$command $word"
      pending=$reply
      continue
    fi
    if [[ $command == 'ROOT run' ]]; then
      if declare -F _command_offset >/dev/null; then _command_offset "$i"; else compopt -o default 2>/dev/null; fi
      return
    fi
    _ROOT_verbs "$command"
    if [[ " $reply " == *" $word "* ]]; then command="$command $word"; fi
  done
  if [[ $cur == = ]]; then cur=; fi
  reply=$pending
  if [[ -z $reply && $cur == -* ]]; then
    _ROOT_options "$command"
  elif [[ -z $reply ]]; then
    _ROOT_verbs "$command"
    if [[ -z $reply ]]; then _ROOT_operands "$command"; fi
    if [[ $command == 'ROOT run' ]]; then reply=@command; fi
  fi
  case $reply in
    @any | '') ;;
    @file) compopt -o filenames 2>/dev/null; mapfile -t COMPREPLY < <(compgen -f -- "$cur") ;;
    @dir) compopt -o filenames 2>/dev/null; mapfile -t COMPREPLY < <(compgen -d -- "$cur") ;;
    @command) mapfile -t COMPREPLY < <(compgen -c -- "$cur") ;;
    *) mapfile -t COMPREPLY < <(compgen -W "$reply" -- "$cur") ;;
  esac
}
complete -F _ROOT ROOT
)bash";

constexpr const char* kZsh = R"zsh(#compdef ROOT
# Completion of ROOT in zsh, as `ROOT completion zsh` prints it.
@VALUES@
@OPERANDS@
@NAMES@
@VERBS@
@OPTIONS@
_ROOT() {
  local command=ROOT pending= word reply
  local -a entries
  integer i
  for ((i = 2; i < CURRENT; ++i)); do
    word=${words[i]}
    if [[ -n $pending ]]; then pending=; continue; fi
    if [[ $word == -* ]]; then
      if [[ $word != *=* ]]; then _ROOT_values "$command $word"; pending=$reply; fi
      continue
    fi
    if [[ $command == 'ROOT run' ]]; then
      words=("${(@)words[i,-1]}")
      (( CURRENT -= i - 1 ))
      _normal
      return
    fi
    _ROOT_names "$command"
    if [[ " $reply " == *" $word "* ]]; then command="$command $word"; fi
  done
  if [[ -z $pending && ${words[CURRENT]} == --*=* ]]; then
    _ROOT_values "$command ${words[CURRENT]%%=*}"
    pending=$reply
    compset -P '*='
  fi
  if [[ -n $pending ]]; then
    case $pending in
      @any) ;;
      @file) _files ;;
      @dir) _files -/ ;;
      *) compadd -- ${=pending} ;;
    esac
    return
  fi
  if [[ ${words[CURRENT]} == -* ]]; then
    _ROOT_options "$command"
    _describe -o option entries
    return
  fi
  _ROOT_verbs "$command"
  if (( ${#entries} )); then
    _describe verb entries
  elif [[ $command == 'ROOT run' ]]; then
    _command_names -e
  else
    _ROOT_operands "$command"
    case $reply in
      '') ;;
      @dir) _files -/ ;;
      @*) _files ;;
      *) compadd -- ${=reply} ;;
    esac
  fi
}
if [[ $funcstack[1] == _ROOT ]]; then _ROOT "$@"; else compdef _ROOT ROOT; fi
)zsh";

constexpr const char* kFish = R"fish(# Completion of ROOT in fish, as `ROOT completion fish` prints it.
function __ROOT_values
    switch "$argv"
@VALUES@    end
end
function __ROOT_names
    switch "$argv"
@NAMES@    end
end
# Succeeds if the words so far name this command, and the next word is its own.
function __ROOT_at
    set -l command ROOT
    set -l pending ''
    set -l words (commandline -opc)
    set -e words[1]
    for word in $words
        if test -n "$pending"
            set pending ''
        else if string match -q -- '-*' $word
            set pending (__ROOT_values "$command $word")
        else if test "$command" = 'ROOT run'
            return 1
        else if contains -- $word (__ROOT_names "$command")
            set command "$command $word"
        end
    end
    test "$command" = "$argv"
end
complete -c ROOT -f
complete -c ROOT -n "__ROOT_at ROOT run" -xa "(__fish_complete_command)"
)fish";

void add_fish_option(const std::string& condition, const Command& root, const Argument& option, std::string& out) {
  out += fmt::format("complete -c {} -n {}", root.name, condition);
  for (const std::string& name : option.names) {
    const bool is_long = name.starts_with("--");
    out += fmt::format(" {} {}", is_long ? "-l" : name.size() == 2 ? "-s" : "-o", name.substr(is_long ? 2 : 1));
  }
  const std::string values = values_of(option);
  if (values == "@file") out += " -rF";
  if (values == "@dir") out += " -xa '(__fish_complete_directories)'";
  if (values == "@any") out += " -x";
  if (!values.empty() && values[0] != '@') out += " -xa " + in_quotes(values);
  out += fmt::format(" -d {}\n", in_quotes(summary(option.what)));
}

std::string fish_script(const Command& root) {
  std::string values;
  std::string names;
  std::string lines;
  for_each_command(root, [&](const Command& command) {
    const std::string condition = in_quotes(fmt::format("__{}_at {}", root.name, command.name));
    if (!command.verbs.empty())
      names += fmt::format("        case {}\n            string split ' ' --", in_quotes(command.name));
    for (const Command& verb : command.verbs) {
      names += " " + last_word(verb.name);
      lines += fmt::format("complete -c {} -n {} -a {} -d {}\n", root.name, condition, last_word(verb.name),
                           in_quotes(summary(verb.what)));
    }
    if (!command.verbs.empty()) names += "\n";
    for (const Argument& option : command.options) {
      for (const std::string& name : option.names)
        if (!option.value.empty())
          values += fmt::format("        case {}\n            echo value\n", in_quotes(command.name + " " + name));
      add_fish_option(condition, root, option, lines);
    }
    const std::string operands = operand_values(command);
    if (operands == "@file" || operands == "@dir")
      lines += fmt::format("complete -c {} -n {} -F\n", root.name, condition);
    else if (!operands.empty() && operands[0] != '@')
      lines += fmt::format("complete -c {} -n {} -xa {}\n", root.name, condition, in_quotes(operands));
  });
  return filled(kFish, root, {{"@VALUES@", values}, {"@NAMES@", names}}) + lines;
}

}  // namespace

const std::vector<std::string>& shell_names() {
  static const std::vector<std::string> names = {"bash", "zsh", "fish"};
  return names;
}

std::string completion_script(std::string_view shell, const Command& root) {
  if (shell == "fish") return fish_script(root);
  return shell == "zsh" ? with_functions(kZsh, root, true) : with_functions(kBash, root, false);
}

}  // namespace xoe::command_line
