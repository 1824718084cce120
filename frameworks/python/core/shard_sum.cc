#include "frameworks/python/core/shard_sum.h"

#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>

#include <vector>

#include "frameworks/python/core/errors.h"

namespace xoe::python {

ShardSum::ShardSum(const Engine& engine, const std::string& name, std::int32_t shards, std::size_t count, double scale)
    : count_(count) {
  xoe_shard_sum* made = nullptr;
  check(xoe_shard_sum_create(engine.get().get(), name.c_str(), shards, count, scale, &made));
  sum_.reset(made);
}

std::pair<std::int32_t, std::int32_t> ShardSum::range() const {
  std::int32_t begin = 0, end = 0;
  check(xoe_shard_sum_range(sum_.get(), &begin, &end));
  return {begin, end};
}

void ShardSum::add(std::int32_t shard, const nb::sequence& pieces) {
  std::vector<const float*> values;
  std::vector<std::size_t> counts;
  for (const nb::handle piece : pieces) {
    const nb::tuple one(piece);
    const auto address = nb::cast<std::uintptr_t>(one[0]);
    values.push_back(reinterpret_cast<const float*>(address));  // NOLINT(performance-no-int-to-ptr)
    counts.push_back(nb::cast<std::size_t>(one[1]));
  }
  check(
      call_released([&] { return xoe_shard_sum_add(sum_.get(), shard, values.data(), counts.data(), values.size()); }));
}

Array ShardSum::wait(nb::handle self) {
  for (;;) {
    float* result = nullptr;
    const xoe_status status = call_released([&] { return xoe_shard_sum_wait(sum_.get(), kSignalTimeout, &result); });
    if (status != XOE_OK) raise(status, xoe_last_error(), true);
    const auto bytes = static_cast<std::int64_t>(count_ * sizeof(float));
    if (result != nullptr) return array_of(result, &bytes, 1, XOE_UINT8, self);
    look_at_signals();
  }
}

void ShardSum::reset() { check(xoe_shard_sum_reset(sum_.get())); }

void bind_shard_sum(nb::module_& module) {
  nb::class_<ShardSum>(module, "ShardSum")
      .def(
          nb::init<const Engine&, const std::string&, std::int32_t, std::size_t, double>(), nb::arg("engine"),
          nb::arg("name"), nb::arg("shards"), nb::arg("count"), nb::arg("scale"),
          "The sum of `count` float32 values over the logical shards of a batch, times `scale`, with the same bits for "
          "any number of ranks.")
      .def("range", &ShardSum::range, "The first shard of this rank, and the one behind its last.")
      .def("add", &ShardSum::add, nb::arg("shard"), nb::arg("pieces"),
           "The values of the next shard of this rank: tuples (address, number of values); address 0: zeros.")
      .def(
          "wait", [](nb::handle self) { return nb::cast<ShardSum&>(self).wait(self); },
          "Blocks until the sum over all shards is there, without the interpreter's lock; its bytes, for DLPack, good "
          "until the next add. Collective.")
      .def("reset", &ShardSum::reset, "Gives up on the step.");
}

}  // namespace xoe::python
