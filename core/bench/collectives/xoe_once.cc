// The shortest program with a collective: init, allreduce of one float, finish.
#include <iostream>

#include "xoe/xoe.h"

int main() {
  auto world = xoe::init();
  if (!world) {
    std::cerr << world.error().to_string() << '\n';
    return 1;
  }
  float x = 1;
  if (const xoe::Status done = world->allreduce(xoe::Tensor(&x, 1)); !done) {
    std::cerr << done.error().to_string() << '\n';
    return 1;
  }
  return x == static_cast<float>(world->size()) ? 0 : 1;
}
