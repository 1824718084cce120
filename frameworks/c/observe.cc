// Timeline, metrics, the process's memory, and texts for callers.
#include <chrono>
#include <cstdlib>
#include <cstring>

#include "core/base/freed_memory.h"
#include "frameworks/c/error.h"
#include "frameworks/c/objects.h"
#include "frameworks/c/structs.h"

namespace xoe::capi {

Status copy_text(std::string_view from, char** text) {
  XOE_TRY(need(text, "text"));
  auto* const copy = static_cast<char*>(std::malloc(from.size() + 1));
  if (copy == nullptr) return failure(Code::kResourceExhausted, "no memory left for {} bytes", from.size() + 1);
  std::memcpy(copy, from.data(), from.size());
  copy[from.size()] = '\0';
  *text = copy;
  return {};
}

}  // namespace xoe::capi

using xoe::Code;
using xoe::failure;
using xoe::Status;
using xoe::capi::copy_text;
using xoe::capi::need;
using xoe::capi::with_engine;

namespace {

using Clock = std::chrono::steady_clock;

Clock::time_point at(std::int64_t ns) { return Clock::time_point(std::chrono::nanoseconds(ns)); }

}  // namespace

extern "C" {

int64_t xoe_now(void) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now().time_since_epoch()).count();
}

xoe_status xoe_timeline_start(xoe_engine* engine, const char* path) {
  return with_engine(engine, [&](xoe::Engine& it) -> Status {
    XOE_TRY(need(path, "path"));
    return it.start_timeline(path);
  });
}

xoe_status xoe_timeline_stop(xoe_engine* engine) {
  return with_engine(engine, [](xoe::Engine& it) { return it.stop_timeline(); });
}

xoe_status xoe_timeline_mark(xoe_engine* engine, const char* lane, const char* name, int64_t start, int64_t stop) {
  return with_engine(engine, [&](xoe::Engine& it) -> Status {
    XOE_TRY(need(lane, "lane"));
    XOE_TRY(need(name, "name"));
    if (stop < start) return failure(Code::kInvalidArgument, "the mark '{:.100}' ends before it starts", name);
    it.mark(lane, name, at(start), at(stop));
    return {};
  });
}

xoe_status xoe_note_step(const xoe_engine* engine) {
  return with_engine(engine, [](xoe::Engine& it) -> Status {
    it.note_step();
    return {};
  });
}

xoe_status xoe_metrics(const xoe_engine* engine, char** text) {
  return with_engine(engine, [&](xoe::Engine& it) -> Status {
    XOE_TRY(need(text, "text"));
    return copy_text(it.metrics(), text);
  });
}

xoe_status xoe_keep_freed_memory(void) {
  return xoe::capi::guard([]() -> Status {
    XOE_ASSIGN([[maybe_unused]] const bool kept, xoe::keep_freed_memory(xoe::Env::process()));
    return {};
  });
}

void xoe_text_free(char* text) { std::free(text); }

}  // extern "C"
