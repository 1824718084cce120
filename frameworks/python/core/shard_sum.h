// Sums over logical shards as a Python object.
#pragma once

#include <nanobind/nanobind.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "frameworks/python/core/arrays.h"
#include "frameworks/python/core/engine.h"
#include "xoe/c.h"

namespace xoe::python {

struct FreeShardSum {
  void operator()(xoe_shard_sum* sum) const noexcept { xoe_shard_sum_free(sum); }
};

class ShardSum {
 public:
  ShardSum(const Engine& engine, const std::string& name, std::int32_t shards, std::size_t count, double scale);

  std::pair<std::int32_t, std::int32_t> range() const;
  // pieces: tuples (address of float32 values, their number); the address 0 stands for zeros.
  void add(std::int32_t shard, const nb::sequence& pieces);
  // The bytes of the sum, which keep this object alive.
  Array wait(nb::handle self);
  void reset();

 private:
  std::unique_ptr<xoe_shard_sum, FreeShardSum> sum_;
  std::size_t count_;
};

void bind_shard_sum(nb::module_& module);

}  // namespace xoe::python
