// Checks that all ranks describe the same things, before data moves.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <ATen/core/Tensor.h>

#include "xoe/communicator.h"

namespace xoe::torch {

// A thing that all ranks must have alike: a name, and what must agree about it ("float32 [64, 3, 7, 7]").
struct Described {
  std::string name;
  std::string description;
};

std::string describe(const at::Tensor& tensor);

// Collective. Compares hashes, and only when they differ the lists themselves: then `invalid_argument` with the same
// message on every rank, which names the first thing that differs, with both sides.
Status check_same(const std::vector<Described>& mine, Communicator& comm, std::string_view what);

}  // namespace xoe::torch
