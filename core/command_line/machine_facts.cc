#include "core/command_line/machine_facts.h"

#include <sys/utsname.h>

#include <fmt/chrono.h>

#include <ctime>
#include <thread>

#include "core/base/machine.h"
#include "core/base/text.h"
#include "core/command_line/version.h"

namespace xoe::command_line {
namespace {

constexpr std::size_t kMostBytes = std::size_t{1} << 20;  // of a file of /proc

std::string processor() {
  const std::string text = read_start("/proc/cpuinfo", kMostBytes).value_or("");
  for (const std::string& line : split_text(text, '\n'))
    if (line.starts_with("model name")) return std::string(trimmed(line.substr(line.find(':') + 1)));
  return {};
}

}  // namespace

MachineFacts machine_facts() {
  utsname system = {};
  ::uname(&system);
  return {.started = fmt::format("{:%Y-%m-%d %H:%M:%S} UTC", fmt::gmtime(std::time(nullptr))),
          .host = host_name("unknown"),
          .version = std::string(version()),
          .system = std::string(system.sysname) + " " + system.release + " " + system.machine,
          .processor = processor(),
          .processors = std::thread::hardware_concurrency(),
          .memory = human_bytes(read_kilobytes("/proc/meminfo", "MemTotal"))};
}

}  // namespace xoe::command_line
