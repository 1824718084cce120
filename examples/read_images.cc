// Reads batches of images with one of the two example pipelines and prints their rate:
//   example_read_images old|new DIR [RANK SIZE]
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "input_pipelines.h"

namespace {

using Clock = std::chrono::steady_clock;

xoe::Status read(bool old, const xoe::examples::WayOptions& options) {
  auto next = old ? xoe::examples::old_way(options) : xoe::examples::new_way(options);
  if (!next) return xoe::failure(next.error());
  std::int64_t images = 0;
  const auto start = Clock::now();
  while (true) {
    auto batch = (*next)();
    if (!batch) return xoe::failure(batch.error());
    if (!*batch) break;
    images += (*batch)->count;
  }
  const std::chrono::duration<double> seconds = Clock::now() - start;
  std::printf("rank %d of %d, the %s way: %lld images, %.0f images/s\n", options.rank, options.size,
              old ? "old" : "new", static_cast<long long>(images), static_cast<double>(images) / seconds.count());
  return {};
}

}  // namespace

int main(int argc, char** argv) {
  const bool old = argc > 1 && std::strcmp(argv[1], "old") == 0;
  if ((argc != 3 && argc != 5) || (!old && std::strcmp(argv[1], "new") != 0)) {
    std::fprintf(stderr, "usage: example_read_images old|new DIR [RANK SIZE]\n");
    return 2;
  }
  xoe::examples::WayOptions options{.directory = argv[2], .epochs = 1};
  if (argc == 5) {
    options.rank = std::atoi(argv[3]);
    options.size = std::atoi(argv[4]);
  }
  const auto done = read(old, options);
  if (!done) std::fprintf(stderr, "%s\n", done.error().to_string().c_str());
  return done ? 0 : 1;
}
