// From C structs to the engine's.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "capi/error.h"
#include "xoe/c.h"
#include "xoe/communicator.h"
#include "xoe/engine.h"

namespace xoe::capi {

// `from`, as far as the caller's header knew the struct; what it did not know is as `defaults` say. What this library
// does not know must be 0. `first_size`: of the struct's first version.
template <class Struct>
Result<Struct> copy_struct(const Struct* from, Struct defaults, std::size_t first_size, std::string_view what) {
  const std::size_t size = from->struct_size;
  if (size < first_size)
    return failure(Code::kInvalidArgument, "{}: struct_size is {}, must be {} at least; call its _init() first", what,
                   size, first_size);
  if (size > (std::size_t{1} << 16))
    return failure(Code::kInvalidArgument, "{}: struct_size is {}; call its _init() first", what, size);
  const auto* bytes = reinterpret_cast<const unsigned char*>(from);
  for (std::size_t i = sizeof(Struct); i < size; ++i)
    if (bytes[i] != 0)
      return failure(Code::kUnsupported, "{}: a field at byte {} is set that this version of Xoe does not know", what,
                     i);
  std::memcpy(&defaults, from, size < sizeof(Struct) ? size : sizeof(Struct));
  return defaults;
}

// As much of the defaults as the caller's struct has room for, zeros behind them.
template <class Struct>
void init_struct(Struct* to, Struct defaults, std::size_t size) {
  if (to == nullptr || size < sizeof(std::size_t)) return;
  defaults.struct_size = size;
  std::memset(to, 0, size);
  std::memcpy(to, &defaults, std::min(size, sizeof(Struct)));
}

// The engine's copies of what a request points at.
struct RequestParts {
  std::vector<TensorArg> tensors;
  Request request;
};

// The parts point into `from` and into `parts`, which must not move afterwards.
Status convert_request(const xoe_request* from, RequestParts& parts);

struct StartOptions {
  InitOptions init;
  std::vector<int> ranks;  // of this rank's group; empty: all
  EngineOptions engine;
};

// What `from` (may be null) leaves open comes from the environment.
Result<StartOptions> convert_options(const xoe_options* from, std::vector<std::string>& warnings);

// Fills a caller's array as far as it goes.
template <class From, class To>
Status fill(const From& values, To* to, std::size_t capacity, std::size_t* count) {
  XOE_TRY(need(count, "count"));
  if (to == nullptr && capacity != 0)
    return failure(Code::kInvalidArgument, "the array is null, its capacity is not 0");
  *count = values.size();
  for (std::size_t i = 0; i < values.size() && i < capacity; ++i) to[i] = static_cast<To>(values[i]);
  return {};
}

// A text for the caller, who gives it back with xoe_text_free().
Status copy_text(std::string_view from, char** text);

}  // namespace xoe::capi
