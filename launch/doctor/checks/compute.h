// Products of matrices on every device of PyTorch: are they right, and how fast?
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "core/base/env.h"
#include "launch/doctor/report/finding.h"

namespace xoe::doctor {

struct Product {
  std::string device = {};  // "cpu", "cuda:0"
  std::string name = {};    // of the device: "NVIDIA T4"
  std::string type = {};    // "float32", "bfloat16"
  std::int64_t size = 0;    // rows and columns of each matrix
  std::int64_t wrong = 0;   // elements, or rows of them
  double gflops = 0;        // thousand millions of operations in a second
  std::string error = {};   // why there is no product
};

struct ComputeFacts {
  std::string program = {};               // python3 of PATH; empty: there is none
  std::string torch = {};                 // PyTorch's version; empty: it cannot be imported, and `error` says why
  std::vector<std::string> devices = {};  // all that were to multiply
  std::vector<Product> products = {};
  std::string error = {};  // why there are no more
};

// Multiplies in a process of its own, a second for each device and type.
ComputeFacts ask_compute(const Env& env, std::chrono::milliseconds timeout);

Findings check_compute(const ComputeFacts& facts);

}  // namespace xoe::doctor
