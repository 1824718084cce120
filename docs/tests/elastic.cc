// A block of a document takes the place of BLOCK.
// clang-format off
// A program whose ranks come and go; a block of a document takes the place of the line below.
#include <vector>

#include "xoe/elastic.h"

xoe::Status train_step(std::vector<float>& weights, xoe::elastic::World& world);

int main() {
  std::vector<float> weights(1000);
  long step = 0;
  BLOCK
  return outcome ? 0 : 1;
}
