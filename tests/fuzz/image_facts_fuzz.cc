// Headers of images: any bytes.
#include "tools/data/image_facts.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  const auto facts =
      xoe::data::read_image_facts({.bytes = {reinterpret_cast<const char*>(bytes), size}, .targets = {}});
  if (facts && (facts->width < 1 || facts->height < 1)) __builtin_trap();
  return 0;
}
