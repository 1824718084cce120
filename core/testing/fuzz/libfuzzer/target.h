// A fuzz target, alone in its program: libFuzzer calls it with bytes of its choice.
#pragma once

#include <cstddef>
#include <cstdint>

#define XOE_FUZZ_TARGET(name) extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size)
