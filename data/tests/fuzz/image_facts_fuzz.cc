// Headers of images: any bytes.
#include "data/cli/image_facts.h"
#include "target.h"

XOE_FUZZ_TARGET(image_facts_fuzz) {
  static xoe::data::Codecs codecs;
  const auto facts =
      xoe::data::read_image_facts({.bytes = {reinterpret_cast<const char*>(bytes), size}, .targets = {}}, codecs);
  if (facts && (facts->width < 1 || facts->height < 1)) __builtin_trap();
  return 0;
}
