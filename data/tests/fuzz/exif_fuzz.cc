// EXIF segments: any bytes give an orientation from 1 to 8.
#include <string_view>

#include "core/testing/fuzz/memory_file.h"
#include "data/jpeg/exif.h"
#include "target.h"

XOE_FUZZ_TARGET(exif_fuzz) {
  const int orientation = xoe::data::exif_orientation({reinterpret_cast<const char*>(bytes), size});
  xoe::require(orientation >= 1 && orientation <= 8);
  return 0;
}
