// Changes an image for augment_test.py: augment_apply WIDTH HEIGHT [OP AMOUNT]... with OP a number of PixelOp; raw RGB
// from standard input to standard output.
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "data/image/augment/apply.h"

int main(int argc, char** argv) {
  if (argc < 3 || argc % 2 == 0) return 2;
  xoe::data::Image image;
  xoe::data::Image scratch;
  image.resize(std::atoi(argv[1]), std::atoi(argv[2]));
  const std::size_t bytes = image.stride() * static_cast<std::size_t>(image.height());
  if (std::fread(image.row(0), 1, bytes, stdin) != bytes) return 3;
  std::vector<xoe::data::PixelChange> changes;
  for (int i = 3; i < argc; i += 2)
    changes.push_back({static_cast<xoe::data::PixelOp>(std::atoi(argv[i])), std::atof(argv[i + 1])});
  xoe::data::apply(changes, image, scratch);
  return std::fwrite(image.row(0), 1, bytes, stdout) == bytes ? 0 : 4;
}
