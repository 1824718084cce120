// Stands in for libFuzzer: feeds a target with every file of a folder, and with some hundred changes of them, the same
// ones in every run. XOE_FUZZ_TARGETS lists the targets: TARGET(name) for each.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "core/testing/fuzz/replay/target.h"

#define TARGET(name) XOE_FUZZ_TARGET(name);
XOE_FUZZ_TARGETS
#undef TARGET

namespace {

struct Target {
  std::string_view name;
  int (*run)(const std::uint8_t*, std::size_t);
};

#define TARGET(name) Target{#name, name},
constexpr Target kTargets[] = {XOE_FUZZ_TARGETS};
#undef TARGET

constexpr int kChanges = 600;  // over all seeds

void feed(const Target& target, const std::string& input) {
  // A copy of exactly this size, so that a sanitizer sees what is read beyond.
  const std::vector<std::uint8_t> bytes(input.begin(), input.end());
  target.run(bytes.data(), bytes.size());
}

std::string changed(std::string input, const std::string& other, std::mt19937& random) {
  for (int times = static_cast<int>(random() % 4); times >= 0; --times) {
    const std::size_t at = input.empty() ? 0 : random() % input.size();
    switch (random() % 5) {
      case 0: input.insert(at, 1, static_cast<char>(random())); break;
      case 1: input.resize(at); break;
      case 2: input.erase(at, 1 + random() % 8); break;
      case 3: input.insert(at, other.substr(other.empty() ? 0 : random() % other.size(), random() % 64)); break;
      default:
        if (!input.empty()) input[at] = static_cast<char>(input[at] ^ (1U << random() % 8));
    }
  }
  return input;
}

}  // namespace

int main(int argc, char** argv) {
  const auto* target =
      argc == 3 ? std::ranges::find(kTargets, std::string_view(argv[1]), &Target::name) : std::end(kTargets);
  std::vector<std::string> paths;
  std::error_code error;
  if (target != std::end(kTargets))
    for (const auto& entry : std::filesystem::directory_iterator(argv[2], error)) paths.push_back(entry.path());
  if (target == std::end(kTargets) || error) {
    std::fprintf(stderr, "usage: %s TARGET FOLDER-OF-SEEDS (%s)\n", argv[0],
                 error ? error.message().c_str() : "no such target");
    return 2;
  }
  std::sort(paths.begin(), paths.end());
  std::vector<std::string> seeds = {""};
  for (const std::string& path : paths) {
    std::ifstream file(path, std::ios::binary);
    seeds.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  }
  for (const std::string& seed : seeds) feed(*target, seed);
  std::mt19937 random(1);
  for (int i = 0; i < kChanges; ++i)
    feed(*target, changed(seeds[static_cast<std::size_t>(i) % seeds.size()], seeds[random() % seeds.size()], random));
  std::printf("%zu seeds and %d changes of them\n", seeds.size(), kChanges);
  return 0;
}
