#include "train/trainer/joined_batch_norm.h"

#include "train/networks/batch_norm.h"

namespace xoe::train {

int join_batch_norms(const models::ImageModel& model, Engine& engine) {
  return models::synchronize_batch_norms(model, [&engine](const at::Tensor& vector) {
    double* const data = vector.data_ptr<double>();
    const std::int64_t count = vector.numel();
    const TensorArg tensor{.in = data, .out = data, .dtype = DType::kFloat64, .shape = {&count, 1}};
    const Status done = engine.run({.name = "batch norm", .op = {.reduce = ReduceOp::kSum}, .tensors = {&tensor, 1}});
    if (!done) throw PassFailed(done.error());
  });
}

void part_batch_norms(const models::ImageModel& model) { models::synchronize_batch_norms(model, {}); }

}  // namespace xoe::train
