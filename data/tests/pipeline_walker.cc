// Restores a random pipeline from a saved position and prints what is left:
//   pipeline_walker SEED THREADS EPOCH POSITION
#include <cstdio>
#include <cstdlib>

#include "data/tests/random_pipelines.h"

int main(int argc, char** argv) {
  using namespace xoe::data;
  if (argc != 5) return 2;
  const auto drawn = test::Draw(std::strtoull(argv[1], nullptr, 10), std::atoi(argv[2])).pipeline();
  const auto walk = drawn.stage->iterate(std::atoll(argv[3])).value();
  if (!walk->restore(State::from_text(argv[4]).value())) return 1;
  for (const std::int64_t number : test::drain(*walk)) std::printf("%lld\n", static_cast<long long>(number));
  return 0;
}
