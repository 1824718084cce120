// Checks that all ranks have the same parameters and options, before data moves.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <ATen/core/Tensor.h>

#include "xoe/communicator.h"

namespace xoe::torch {

// A property that must be the same on all ranks: a name and a description ("float32 [64, 3, 7, 7]").
struct Described {
  std::string name;
  std::string description;
};

std::string describe(const at::Tensor& tensor);

// Collective. Compares hashes, and the lists themselves only when the hashes differ: then `invalid_argument` with the
// same message on every rank, which names the first difference and both sides.
Status check_same(const std::vector<Described>& mine, Communicator& comm, std::string_view what);

}  // namespace xoe::torch
