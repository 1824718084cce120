// Copies that leave the processor's caches to others.
#pragma once

#include <cstddef>

namespace xoe::reduce {

// Copies bytes with stores that pass the caches by: for memory that nothing reads soon. All of them are visible to
// other processors once later stores are. REQUIRES: no overlap.
void copy_past_cache(void* to, const void* from, std::size_t bytes) noexcept;

}  // namespace xoe::reduce
