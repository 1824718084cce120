// Saved positions, which come from checkpoints: what is read prints as it was.
#include <cstdlib>

#include "target.h"
#include "xoe/data/stage.h"

XOE_FUZZ_TARGET(state_fuzz) {
  const auto state = xoe::data::State::from_text({reinterpret_cast<const char*>(bytes), size});
  if (!state) return 0;
  const auto again = xoe::data::State::from_text(state->to_text());
  if (!again || *again != *state) std::abort();
  return 0;
}
