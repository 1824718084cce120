#include "train/trainer/agree.h"

#include <cstdint>

#include "core/base/error.h"

namespace xoe::train {

Status agree(Communicator& comm, const Status& mine) {
  if (comm.size() == 1) return mine;
  std::int64_t first = mine ? comm.size() : comm.rank();
  XOE_TRY(comm.allreduce(Tensor(&first, 1), ReduceOp::kMin, {.name = "agreement"}));
  if (first == comm.size()) return {};

  const int root = static_cast<int>(first);
  std::string message;
  if (comm.rank() == root) {
    message = static_cast<char>(mine.error().code());
    message += root == 0 ? mine.error().message() : fmt::format("rank {}: {}", root, mine.error().message());
  }
  XOE_TRY(broadcast_bytes(comm, message, root));
  return failure(static_cast<Code>(message.front()), message.substr(1));
}

Status broadcast_bytes(Communicator& comm, std::string& bytes, int root) {
  if (comm.size() == 1) return {};
  std::int64_t length = static_cast<std::int64_t>(bytes.size());
  XOE_TRY(comm.broadcast(Tensor(&length, 1), root));
  bytes.resize(static_cast<std::size_t>(length));
  return comm.broadcast(Tensor(bytes.data(), bytes.size(), DType::kUint8), root);
}

Result<std::vector<std::string>> gather_texts(Communicator& comm, std::string_view text) {
  XOE_ASSIGN(const Gathered all, comm.allgather(ConstTensor(text.data(), text.size(), DType::kUint8)));
  const char* from = reinterpret_cast<const char*>(all.data.data());
  std::vector<std::string> texts;
  for (const std::size_t length : all.counts) {
    texts.emplace_back(from, length);
    from += length;
  }
  return texts;
}

}  // namespace xoe::train
