#include "launch/doctor/facts/tree.h"

#include <algorithm>
#include <filesystem>
#include <map>

#include "core/base/machine.h"
#include "core/base/text.h"

namespace xoe::doctor {
namespace fs = std::filesystem;
namespace {

constexpr std::size_t kMaxFileBytes = std::size_t{1} << 20;
constexpr std::string_view kBlanks = " \t\n\r";

}  // namespace

Tree::Tree(std::string root) : root_(std::move(root)) {
  while (root_.ends_with('/')) root_.pop_back();
}

bool Tree::has(std::string_view name) const {
  std::error_code ignored;
  return fs::exists(fs::symlink_status(path(name), ignored));
}

std::optional<std::string> Tree::bytes(std::string_view name, std::size_t most) const {
  return read_start(path(name), most);
}

std::optional<std::string> Tree::text(std::string_view name) const {
  auto text = bytes(name, kMaxFileBytes);
  if (!text) return std::nullopt;
  const auto last = text->find_last_not_of(kBlanks);
  text->resize(last == std::string::npos ? 0 : last + 1);
  return text;
}

std::string Tree::line(std::string_view name) const {
  const auto all = text(name);
  return all ? all->substr(0, all->find('\n')) : std::string();
}

std::optional<std::int64_t> Tree::number(std::string_view name) const { return parse_integer(line(name)); }

std::vector<std::string> Tree::names(std::string_view folder) const {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator entry(path(folder), error), end; !error && entry != end; entry.increment(error))
    names.push_back(entry->path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

std::optional<std::string> Tree::full_target(std::string_view link) const {
  std::error_code error;
  const fs::path target = fs::read_symlink(path(link), error);
  if (error) return std::nullopt;
  return target.string();
}

std::optional<std::string> Tree::target(std::string_view link) const {
  const auto whole = full_target(link);
  if (!whole) return std::nullopt;
  return fs::path(*whole).filename().string();
}

Env environment_of(const Tree& tree) {
  std::map<std::string, std::string, std::less<>> values;
  for (const std::string& entry : split_text(tree.text("/proc/self/environ").value_or(""), '\0'))
    if (const auto at = entry.find('='); at != std::string::npos) values[entry.substr(0, at)] = entry.substr(at + 1);
  return Env(std::move(values));
}

std::string field(std::string_view text, std::string_view key) {
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    if (line.starts_with(key)) {
      const std::string_view rest = trimmed(line.substr(key.size()));
      if (rest.starts_with(':')) return std::string(trimmed(rest.substr(1)));
      if (line.size() > key.size() && kBlanks.find(line[key.size()]) != std::string_view::npos)
        return std::string(rest);
    }
    text.remove_prefix(std::min(line.size() + 1, text.size()));
  }
  return {};
}

std::vector<std::string> lines_of(std::string_view text) {
  auto lines = split_text(text, '\n');
  std::erase_if(lines, [](const std::string& line) { return line.empty(); });
  return lines;
}

std::vector<int> parse_cpu_list(std::string_view text) {
  constexpr std::int64_t kMost = 65536;
  std::vector<int> cpus;
  for (const std::string& part : split_text(text, ',')) {
    const auto ends = split_text(trimmed(part), '-');
    const auto first = parse_integer(ends.front());
    const auto last = parse_integer(ends.back());
    if (!first || !last || ends.size() > 2 || *first < 0 || *last >= kMost) continue;
    for (auto cpu = *first; cpu <= *last && cpus.size() < kMost; ++cpu) cpus.push_back(static_cast<int>(cpu));
  }
  return cpus;
}

}  // namespace xoe::doctor
