#include "frameworks/c/compare_on.h"

#include <string>
#include <vector>

namespace xoe::capi {
namespace {

// Every rank's text, by rank.
Result<std::vector<std::string>> gather(Engine& engine, const std::string& text) {
  const std::int64_t rows = std::ssize(text);
  const TensorArg tensor{.in = text.data(), .dtype = DType::kUint8, .shape = {&rows, 1}};
  XOE_ASSIGN(EngineHandle handle, engine.submit({.name = "xoe.data.opened",
                                                 .queue_same_name = true,
                                                 .op = {.kind = OpKind::kAllgather, .needs_all_ranks = true},
                                                 .tensors = {&tensor, 1}}));
  XOE_TRY(handle.wait());
  const char* from = static_cast<const char*>(handle.outputs()[0].data);
  std::vector<std::string> texts;
  for (const std::int64_t length : handle.received_splits()) {
    texts.emplace_back(from, static_cast<std::size_t>(length));
    from += length;
  }
  return texts;
}

}  // namespace

Status compare_on(xoe_engine& engine, const Result<data::OpenedData>& mine) {
  if (engine.world_version > 0) return mine ? Status() : failure(mine.error());
  return data::compare_opened(mine, engine.engine->topology().rank,
                              [&](const std::string& text) { return gather(*engine.engine, text); });
}

}  // namespace xoe::capi
