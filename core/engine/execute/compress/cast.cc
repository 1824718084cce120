#include "core/engine/execute/compress/codecs.h"

#include "core/engine/execute/compress/feedback.h"
#include "core/reduce/reduce.h"

namespace xoe::engine {

Task Cast::allreduce(Communicator& comm, std::span<float> values) {
  if (comm.size() == 1) co_return Status();
  scratch_->wire16.resize(values.size());
  if (error_feedback_) {
    fit_residual(residual_, values.size());
    add_residual(values, residual_);
  }
  reduce::cast(values.data(), DType::kFloat32, scratch_->wire16.data(), wire_type_, values.size());
  if (error_feedback_) {
    reduce::cast(scratch_->wire16.data(), wire_type_, residual_.data(), DType::kFloat32, values.size());
    keep_rest(values, residual_);
  }
  const Tensor wire(scratch_->wire16.data(), scratch_->wire16.size(), wire_type_);
  XOE_CO_TRY(comm.start_allreduce(wire, wire));
  reduce::cast(scratch_->wire16.data(), wire_type_, values.data(), DType::kFloat32, values.size());
  co_return Status();
}

}  // namespace xoe::engine
