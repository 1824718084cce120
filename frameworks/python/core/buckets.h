// Buckets of gradients as a Python object.
#pragma once

#include <nanobind/nanobind.h>

#include <cstddef>
#include <memory>
#include <vector>

#include "frameworks/python/core/engine.h"
#include "xoe/c.h"

namespace xoe::python {

struct FreeBuckets {
  void operator()(xoe_buckets* buckets) const noexcept { xoe_buckets_free(buckets); }
};

// Arrays of slots keep it alive.
class Buckets {
 public:
  enum class Put : int { kNothing, kCopied, kLayThere };

  // Collective. prepared: the request but for its name. parameters: tuples (name, shape in the order of memory, number
  // of the type, PyTorch's type, PyTorch's strides). like: any dense tensor of PyTorch.
  Buckets(const Engine& engine, const char* name, const xoe_request& prepared, const nb::sequence& parameters,
          nb::handle like);

  // Bytes of a parameter's slot; none: it is not in the buckets.
  nb::object slot(nb::handle self, std::size_t parameter) const;
  // Puts a gradient, unless it is something else than a tensor of the parameter's layout (kNothing).
  Put put(std::size_t parameter, nb::handle tensor);
  void put_zeros(std::size_t parameter);
  void leave_out(std::size_t parameter);
  void wait();
  void reset();

 private:
  struct Parameter {
    nb::object dtype;
    nb::object strides;
    nb::object shape;
    void* data = nullptr;
    std::int64_t bytes = 0;
  };

  std::unique_ptr<xoe_buckets, FreeBuckets> buckets_;
  std::vector<Parameter> parameters_;
  nb::object type_;     // torch.Tensor
  nb::object strided_;  // torch.strided
};

void bind_buckets(nb::module_& module);

}  // namespace xoe::python
