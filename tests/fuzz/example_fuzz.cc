// tf.Example: any bytes; what is found lies within them.
#include <cstdlib>

#include "data/example.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  const std::string_view example(reinterpret_cast<const char*>(bytes), size);
  const auto inside = [example](std::string_view part) {
    return part.empty() ||
           (part.data() >= example.data() && part.data() + part.size() <= example.data() + example.size());
  };
  if (const auto features = xoe::data::parse_example(example))
    for (const auto& feature : *features) {
      if (!inside(feature.name)) std::abort();
      for (const auto part : feature.bytes)
        if (!inside(part)) std::abort();
    }
  (void)xoe::data::parse_image_example(example);
  return 0;
}
