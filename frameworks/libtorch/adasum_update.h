// Combines what the ranks' optimizers changed, instead of their gradients.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "frameworks/libtorch/gradients.h"
#include "xoe/engine.h"

namespace xoe::torch {

// Around each step of an optimizer that uses this rank's own gradients. Maleki et al., "Scaling Distributed Training
// with Adaptive Summation", 2020.
class AdasumUpdate {
 public:
  // Not collective. name: of the engine's operation. `unsupported`: a parameter that is not a float tensor in host
  // memory.
  static Result<std::unique_ptr<AdasumUpdate>> create(std::span<const NamedParameter> parameters, Engine& engine,
                                                      std::string name);

  void begin();
  // Collective. After an error the parameters are as they were at begin().
  Status end();

 private:
  struct Part {
    at::Tensor parameter;
    at::Tensor start;   // its values at begin()
    at::Tensor change;  // in memory_
  };
  AdasumUpdate(Engine& engine, std::string name) : engine_(engine), name_(std::move(name)) {}

  Engine& engine_;
  const std::string name_;
  std::vector<Part> parts_;
  std::shared_ptr<SharedBuffer> memory_;
};

}  // namespace xoe::torch
