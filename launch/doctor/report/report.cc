#include "launch/doctor/report/report.h"

#include <fmt/format.h>

#include "core/base/text.h"
#include "launch/doctor/facts/tree.h"

namespace xoe::doctor {
namespace {

constexpr std::string_view kIndent = "           ";  // as wide as a state and the blanks around it

std::string painted(Severity state, bool colours) {
  std::string name = fmt::format("{:<7}", severity_name(state));
  if (!colours) return name;
  constexpr int kColours[] = {32, 36, 33, 31, 2};
  return fmt::format("\033[{}m{}\033[0m", kColours[static_cast<int>(state)], name);
}

std::string bold(std::string_view text, bool colours) {
  return colours ? fmt::format("\033[1m{}\033[0m", text) : std::string(text);
}

// Breaks at blanks; the lines after the first are indented.
std::string wrapped(std::string_view text, int width) {
  std::string out;
  std::size_t column = kIndent.size();
  for (const std::string& word : words_of(text)) {
    const bool first = out.empty();
    if (!first && column + 1 + word.size() > static_cast<std::size_t>(width)) {
      out.append("\n").append(kIndent);
      column = kIndent.size();
    } else if (!first) {
      out += ' ';
      ++column;
    }
    out += word;
    column += word.size();
  }
  return out;
}

bool wants_attention(Severity state) { return state == Severity::kWarning || state == Severity::kProblem; }

std::string finding_text(const Finding& finding, const TextOptions& options) {
  const auto line = [&options](std::string_view label, const std::string& text) {
    return fmt::format("{}{}\n", kIndent, wrapped(fmt::format("{}: {}", label, printable(text)), options.width));
  };
  std::string out = fmt::format("  {}  {}\n", painted(finding.severity, options.colours),
                                wrapped(printable(finding.what), options.width));
  if (!finding.table.empty() && (options.verbose || finding.id == "gpu.topology" || finding.id == "hosts.pairs"))
    for (const std::string& row : lines_of(finding.table)) out += fmt::format("{}{}\n", kIndent, printable(row));
  if (!finding.why.empty() && (options.verbose || wants_attention(finding.severity))) out += line("why", finding.why);
  if (!finding.fix.empty() && (options.verbose || finding.severity != Severity::kOk)) out += line("fix", finding.fix);
  for (const std::string& row : lines_of(finding.manifest)) out += fmt::format("{}{}\n", kIndent, printable(row));
  if (options.verbose && !finding.details.empty()) out += line(finding.id, to_line(finding.details));
  return out;
}

}  // namespace

std::string manifest_lines(std::string_view container, std::string_view pod) {
  std::string lines = "spec:\n";
  if (!container.empty()) lines += fmt::format("  containers:\n  - name: NAME\n    {}\n", container);
  if (!pod.empty()) lines += fmt::format("  {}\n", pod);
  return lines;
}

std::string memory_limit_line(std::uint64_t bytes) {
  constexpr std::uint64_t kGiB = std::uint64_t{1} << 30;
  return fmt::format("resources: {{limits: {{memory: {}Gi}}}}", bytes / kGiB + (bytes % kGiB == 0 ? 0 : 1));
}

std::string printable(std::string_view text, std::size_t most) {
  std::string out(text.substr(0, most));
  std::replace_if(
      out.begin(), out.end(), [](unsigned char c) { return c < 0x20 || c == 0x7f; }, '?');
  if (text.size() <= most) return out;
  // Not in the middle of a character.
  while (!out.empty() && (static_cast<unsigned char>(out.back()) & 0xC0U) == 0x80) out.pop_back();
  if (!out.empty() && static_cast<unsigned char>(out.back()) >= 0xC0) out.pop_back();
  return out + "...";
}

Count count_severities(const Findings& findings) {
  Count count;
  for (const Finding& finding : findings) ++count.of[static_cast<int>(finding.severity)];
  return count;
}

std::string count_text(const Count& count) {
  std::string text = fmt::format("{} ok", count[Severity::kOk]);
  for (const Severity state : {Severity::kNote, Severity::kWarning, Severity::kProblem})
    if (count[state] > 0) text += ", " + counted(count[state], severity_name(state));
  if (count[Severity::kSkipped] > 0) text += fmt::format(", {} skipped", count[Severity::kSkipped]);
  return text;
}

std::string findings_text(const Findings& findings, const TextOptions& options) {
  std::string out;
  std::string_view group;
  for (const Finding& finding : findings) {
    if (finding.group() != group) {
      group = finding.group();
      out += fmt::format("{}{}\n", out.empty() ? "" : "\n", bold(group, options.colours));
    }
    out += finding_text(finding, options);
  }
  return out;
}

std::string report_text(const Report& report, const TextOptions& options) {
  return fmt::format("{}\n\n{}\n{}\n", bold(printable(report.host, 255), options.colours),
                     findings_text(report.findings, options), count_text(count_severities(report.findings)));
}

}  // namespace xoe::doctor
