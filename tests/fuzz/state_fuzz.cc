// Saved positions, which come from checkpoints: what is read prints as it was.
#include <cstdlib>

#include "xoe/data/stage.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  const auto state = xoe::data::State::from_text({reinterpret_cast<const char*>(bytes), size});
  if (!state) return 0;
  const auto again = xoe::data::State::from_text(state->to_text());
  if (!again || *again != *state) std::abort();
  return 0;
}
