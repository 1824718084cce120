#define TOML_EXCEPTIONS 0
#define TOML_ENABLE_FORMATTERS 0
// Some files break its assertions ("[#", in 3.3) and get a good error without them; with NDEBUG clang would rely on
// them.
#define TOML_ASSERT(condition) static_assert(true)
#pragma push_macro("NDEBUG")
#undef NDEBUG
#include <toml++/toml.h>
#pragma pop_macro("NDEBUG")

#include "base/error.h"
#include "launch/options/config_file.h"
#include "launch/options/option_table.h"

namespace xoe::launch {
namespace {

tl::unexpected<Error> wrong(std::string_view path, const toml::source_region& at, std::string_view what) {
  return failure(Code::kInvalidArgument, "{} line {}: {}", path, at.begin.line, what);
}

// A value as the command line would have it; nullopt where it has no such form.
std::optional<std::string> word_of(const toml::node& node) {
  if (const auto* text = node.as_string()) return text->get();
  if (const auto* number = node.as_integer()) return std::to_string(number->get());
  if (const auto* number = node.as_floating_point()) return fmt::format("{}", number->get());
  if (const auto* list = node.as_array()) {
    std::string all;
    for (const toml::node& one : *list) {
      const auto word = one.is_array() ? std::nullopt : word_of(one);
      if (!word) return std::nullopt;
      all.append(all.empty() ? "" : ",").append(*word);
    }
    return all;
  }
  return std::nullopt;
}

Status apply_env(const toml::node& node, std::string_view path, RunArguments& run) {
  const toml::table* table = node.as_table();
  if (table == nullptr) return wrong(path, node.source(), "env: expected a table of NAME = \"value\"");
  for (const auto& [key, value] : *table) {
    const auto word = word_of(value);
    if (!word || value.is_array())
      return wrong(path, value.source(), fmt::format("env: {} must be a text or a number", key.str()));
    XOE_TRY(apply_option(*find_option("--env"), "env", fmt::format("{}={}", key.str(), *word), run));
  }
  return {};
}

Status apply_key(std::string_view key, const toml::node& node, std::string_view path, RunArguments& run) {
  if (key == "env") return apply_env(node, path, run);
  if (key == "config-file" || key == "help" || key == "version")
    return wrong(path, node.source(), fmt::format("{} does not belong in a configuration file", key));
  const std::string name = fmt::format("--{}", key);
  const Option* option = find_option(name);
  if (option == nullptr) return wrong(path, node.source(), unknown_option(name).value().message());
  std::string word;
  if (option->has_value()) {
    const auto value = word_of(node);
    if (!value) return wrong(path, node.source(), fmt::format("{}: expected a text or a number", key));
    word = *value;
  } else {
    const auto* flag = node.as_boolean();
    if (flag == nullptr) return wrong(path, node.source(), fmt::format("{}: expected true or false", key));
    if (!flag->get()) {
      if (key == "tag-output") run.options.tag_output = false;
      return {};
    }
  }
  const auto applied = apply_option(*option, key, word, run);
  return applied ? Status() : wrong(path, node.source(), applied.error().message());
}

}  // namespace

Status read_toml_config(std::string_view text, std::string_view path, RunArguments& run) {
  const toml::parse_result parsed = toml::parse(text);
  if (!parsed) return wrong(path, parsed.error().source(), parsed.error().description());
  for (const auto& [key, value] : parsed.table()) XOE_TRY(apply_key(key.str(), value, path, run));
  return {};
}

}  // namespace xoe::launch
