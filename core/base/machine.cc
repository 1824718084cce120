#include "core/base/machine.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <fstream>

#include "core/base/fd.h"
#include "core/base/text.h"

namespace xoe {

std::optional<std::string> read_start(const std::string& path, std::size_t most) {
  const Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!file.valid()) return std::nullopt;
  std::string bytes;
  struct stat facts = {};
  if (::fstat(file.get(), &facts) == 0 && facts.st_size > 0)
    bytes.reserve(std::min(most, static_cast<std::size_t>(facts.st_size)));
  char part[65536];
  while (bytes.size() < most) {
    const auto count = ::read(file.get(), part, std::min(sizeof part, most - bytes.size()));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return std::nullopt;
    if (count == 0) break;
    bytes.append(part, static_cast<std::size_t>(count));
  }
  return bytes;
}

std::optional<std::string> read_line(const std::string& path) {
  auto text = read_start(path, 4096);
  if (!text || text->empty()) return std::nullopt;
  text->resize(std::min(text->find('\n'), text->size()));
  return text;
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

std::string host_name(std::string_view otherwise) {
  char name[256] = {};
  return ::gethostname(name, sizeof name - 1) == 0 ? name : std::string(otherwise);
}

std::string machine_identity() {
  const auto boot = read_line("/proc/sys/kernel/random/boot_id");
  struct stat names = {};
  if (!boot || ::stat("/proc/self/ns/uts", &names) != 0) return {};
  return *boot + "/" + std::to_string(names.st_ino);
}

std::string_view start_of_machine(std::string_view identity) { return identity.substr(0, identity.find('/')); }

}  // namespace xoe
