// Allreduce over hosts with Xoe, started by xoe run; XOE_BACKEND chooses.
#include <cstdio>
#include <cstdlib>

#include "core/bench/hosts/loop.h"
#include "xoe/xoe.h"

namespace {

void check(const xoe::Status& status) {
  if (status) return;
  std::fprintf(stderr, "%s\n", status.error().to_string().c_str());
  std::exit(1);
}

}  // namespace

int main(int argc, char** argv) {
  auto world = xoe::init();
  if (!world) {
    std::fprintf(stderr, "%s\n", world.error().to_string().c_str());
    return 1;
  }
  const xoe::bench::Engine engine{
      .rank = world->rank(),
      .size = world->size(),
      .sum = [&](float* data, std::size_t count) { check(world->allreduce(xoe::Tensor(data, count))); },
      .maximum =
          [&](double x) {
            check(world->allreduce(xoe::Tensor(&x, 1), xoe::ReduceOp::kMax));
            return x;
          }};
  const int code = xoe::bench::measure(engine, argc, argv);
  check(world->barrier());
  return code;
}
