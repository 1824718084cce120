// Memory that simulated processes share.
#include <sys/stat.h>

#include "core/testing/sim/kernel.h"
#include "core/testing/sim/real.h"

namespace xoe::sim {
namespace {

struct Mapping {
  std::size_t size = 0;
  std::uint64_t file = 0;
  std::int64_t at = 0;
};

std::map<std::uintptr_t, Mapping>& mappings() {
  static auto* const all = new std::map<std::uintptr_t, Mapping>;
  return *all;
}

}  // namespace

void note_mapping(void* address, std::size_t size, int fd, std::int64_t at) {
  static auto* const look = real<decltype(::fstat)>("fstat");
  struct stat facts = {};
  if (look(fd, &facts) != 0) return;
  mappings()[reinterpret_cast<std::uintptr_t>(address)] = {.size = size, .file = facts.st_ino, .at = at};
}

void forget_mapping(void* address) { mappings().erase(reinterpret_cast<std::uintptr_t>(address)); }

std::pair<std::uint64_t, std::uint64_t> shared_word(const void* address) {
  const auto word = reinterpret_cast<std::uintptr_t>(address);
  auto after = mappings().upper_bound(word);
  if (after == mappings().begin()) return {0, word};
  const auto& [begin, mapping] = *--after;
  if (word - begin >= mapping.size) return {0, word};
  return {mapping.file, static_cast<std::uint64_t>(mapping.at) + (word - begin)};
}

}  // namespace xoe::sim
