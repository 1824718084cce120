// Quality of scores.
#include "xoe/stats.h"
#include "core/base/error.h"
#include "frameworks/c/error.h"

namespace xoe::capi {
namespace {

Status auroc_of(const double* scores, const std::uint8_t* positive, std::size_t count, xoe_auroc* result,
                double* influence) {
  XOE_TRY(need(scores, "auroc: scores"));
  XOE_TRY(need(positive, "auroc: positive"));
  XOE_TRY(need(result, "auroc: the result"));
  const std::span<double> parts = influence == nullptr ? std::span<double>() : std::span(influence, count);
  XOE_ASSIGN(const stats::Auroc found, stats::auroc({scores, count}, {positive, count}, parts));
  *result = {found.value, found.variance, found.positives, found.negatives};
  return {};
}

}  // namespace
}  // namespace xoe::capi

extern "C" xoe_status xoe_auroc_of(const double* scores, const uint8_t* positive, size_t count, xoe_auroc* auroc,
                                   double* influence) {
  return xoe::capi::guard([&] { return xoe::capi::auroc_of(scores, positive, count, auroc, influence); });
}
