// A program outside Xoe's tree: what the public headers of the components promise, compiled and run.
#include <cstdio>
#include <string>
#include <vector>

#include "xoe/data.h"
#include "xoe/engine.h"
#include "xoe/xoe.h"

namespace {

xoe::Status run() {
  auto world = xoe::init();
  if (!world) return xoe::failure(world.error());
  std::vector<float> values = {static_cast<float>(world->rank() + 1)};
  if (auto done = world->allreduce(xoe::Tensor(values.data(), values.size())); !done) return done;
  std::printf("rank %d of %d: the sum is %g\n", world->rank(), world->size(), static_cast<double>(values[0]));
  return {};
}

}  // namespace

int main() {
  const auto done = run();
  if (!done) std::fprintf(stderr, "%s\n", done.error().to_string().c_str());
  return done ? 0 : 1;
}
