// A fuzz target, one of all in one program: main.cc calls the one that is named.
#pragma once

#include <cstddef>
#include <cstdint>

#define XOE_FUZZ_TARGET(name) int name(const std::uint8_t* bytes, std::size_t size)
