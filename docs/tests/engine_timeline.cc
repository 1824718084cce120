// A block of a document takes the place of BLOCK.
// clang-format off
// A program with an engine; a block of a document takes the place of the line below.
#include <chrono>

#include "xoe/engine.h"

void record(xoe::Engine* engine, std::chrono::steady_clock::time_point start, std::chrono::steady_clock::time_point stop) {
  BLOCK
}
