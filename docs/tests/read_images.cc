// A block of a document takes the place of BLOCK.
// clang-format off
// A program that reads images; a block of a document takes the place of the line below.
#include <cstdint>

void train(const float* pixels, const std::vector<std::int64_t>& labels, int count);

void read(int rank, int size) {
  BLOCK
}
