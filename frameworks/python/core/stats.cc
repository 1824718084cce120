#include "frameworks/python/core/stats.h"

#include <nanobind/ndarray.h>

#include <cstdint>

#include "frameworks/python/core/errors.h"
#include "xoe/c.h"

namespace xoe::python {
namespace {

template <class T>
using Column = nb::ndarray<T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

nb::tuple auroc(const Column<const double>& scores, const Column<const std::uint8_t>& positive,
                const Column<double>& influence) {
  if (scores.size() != positive.size() || scores.size() != influence.size())
    throw nb::value_error("arrays of different lengths");
  xoe_auroc result{};
  check(call_released(
      [&] { return xoe_auroc_of(scores.data(), positive.data(), scores.size(), &result, influence.data()); }));
  return nb::make_tuple(result.value, result.variance, result.positives, result.negatives);
}

}  // namespace

void bind_stats(nb::module_& module) {
  module.def("auroc", &auroc, nb::arg("scores"), nb::arg("positive"), nb::arg("influence"),
             "xoe_auroc_of(): float64 and uint8 arrays; influence is written to. (value, variance, positives, "
             "negatives)");
}

}  // namespace xoe::python
