// The smallest Xoe program: every rank contributes a number, and every rank gets the sum.
//   xoe run -np 4 build/release/bin/example_sum
#include <cstdio>

#include "xoe/xoe.h"

namespace {

xoe::Status add_up() {
  auto world = xoe::init();  // rank and size come from the launcher's environment
  if (!world) return xoe::failure(world.error());
  auto buffer = world->shared_buffer(sizeof(float));  // reduced in place; any other memory works too
  if (!buffer) return xoe::failure(buffer.error());
  auto values = buffer->as<float>();
  values[0] = static_cast<float>(world->rank() + 1);
  if (auto done = world->allreduce(xoe::Tensor(values.data(), values.size())); !done) return done;
  std::printf("rank %d of %d: the sum is %g\n", world->rank(), world->size(), static_cast<double>(values[0]));
  return {};
}

}  // namespace

int main() {
  const auto done = add_up();
  if (!done) std::fprintf(stderr, "%s\n", done.error().to_string().c_str());
  return done ? 0 : 1;
}
