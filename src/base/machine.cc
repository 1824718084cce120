#include "base/machine.h"

#include <fcntl.h>
#include <unistd.h>

#include <fstream>

#include "base/fd.h"
#include "base/text.h"

namespace xoe {

std::optional<std::string> read_line(const std::string& path) {
  const Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  char text[4096];
  const auto count = file.valid() ? ::read(file.get(), text, sizeof text) : -1;
  if (count <= 0) return std::nullopt;
  const std::string_view all(text, static_cast<std::size_t>(count));
  return std::string(all.substr(0, all.find('\n')));
}

std::uint64_t read_kilobytes(const std::string& path, std::string_view key) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with(key)) continue;
    const auto from = line.find_first_of("0123456789");
    if (from == std::string::npos) return 0;
    const auto value = parse_integer(line.substr(from, line.find(' ', from) - from));
    return value ? static_cast<std::uint64_t>(*value) * 1024 : 0;
  }
  return 0;
}

std::uint64_t available_memory_bytes() { return read_kilobytes("/proc/meminfo", "MemAvailable:"); }

// The file says "200000 100000" for 2.
std::optional<double> cpu_quota() {
  const auto line = read_line("/sys/fs/cgroup/cpu.max");
  if (!line) return std::nullopt;
  const auto fields = split_text(*line, ' ');
  if (fields.size() != 2) return std::nullopt;
  const auto quota = parse_number(fields[0]);
  const auto period = parse_number(fields[1]);
  if (!quota || !period || !(*period > 0)) return std::nullopt;
  return *quota / *period;
}

}  // namespace xoe
