#include "engine/execute/compress/plain.h"

namespace xoe::engine {

Task Plain::allreduce(Communicator& comm, std::span<float> values) {
  const Tensor tensor(values.data(), values.size());
  XOE_CO_TRY(comm.start_allreduce(tensor, tensor));
  co_return Status();
}

}  // namespace xoe::engine
