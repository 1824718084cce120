// Messages from rank to rank.
#include <chrono>
#include <cstdint>
#include <memory>

#include "core/bootstrap/proof.h"
#include "frameworks/c/error.h"
#include "frameworks/c/objects.h"
#include "frameworks/c/structs.h"

namespace xoe::capi {
namespace {

using engine::MessagePtr;
using engine::Messages;

// start(Messages&, timeout) begins a message.
template <class Start>
xoe_status begin(const xoe_messages* messages, const void* data, size_t bytes, std::int64_t timeout,
                 xoe_message** message, Start&& start) noexcept {
  return with(messages, "messages", [&](const xoe_messages& it) -> Status {
    XOE_TRY(need(message, "message"));
    if (bytes > 0) XOE_TRY(need(data, "data"));
    XOE_TRY(check_number(timeout, 0, INT64_MAX, "timeout"));
    auto made = std::make_unique<xoe_message>();
    made->messages = it.messages;
    XOE_ASSIGN(made->message, start(*made->messages, std::chrono::nanoseconds(timeout)));
    *message = made.release();
    return {};
  });
}

}  // namespace
}  // namespace xoe::capi

using xoe::Status;
using xoe::capi::begin;
using xoe::capi::give;
using xoe::capi::guard;
using xoe::capi::need;
using xoe::capi::with;
using xoe::capi::with_engine;

static_assert(XOE_ANY_RANK == xoe::engine::kAnyRank);

extern "C" {

xoe_status xoe_messages_open(xoe_engine* engine, const char* name, int32_t progress_thread, xoe_messages** messages) {
  return with_engine(engine, [&](xoe::Engine& it) -> Status {
    XOE_TRY(need(name, "name"));
    XOE_TRY(need(messages, "messages"));
    XOE_TRY(xoe::capi::check_number(progress_thread, 0, 1, "progress_thread"));
    auto made = std::make_unique<xoe_messages>();
    XOE_ASSIGN(made->messages,
               xoe::engine::Messages::open(it, {.name = name,
                                                .address = engine->address,
                                                .secret = xoe::bootstrap::make_key(engine->key, "messages"),
                                                .encrypt = engine->encrypts,
                                                .progress_thread = progress_thread == 1}));
    *messages = made.release();
    return {};
  });
}

void xoe_messages_close(xoe_messages* messages) {
  (void)guard([&]() -> Status {
    if (messages != nullptr) messages->messages->close();
    delete messages;
    return {};
  });
}

xoe_status xoe_message_send(xoe_messages* messages, int32_t to, uint64_t tag, const void* data, size_t bytes,
                            int64_t timeout, xoe_message** message) {
  return begin(messages, data, bytes, timeout, message,
               [&](xoe::engine::Messages& in, auto limit) { return in.send(to, tag, data, bytes, limit); });
}

xoe_status xoe_message_receive(xoe_messages* messages, int32_t from, uint64_t tag, void* data, size_t bytes,
                               int64_t timeout, xoe_message** message) {
  return begin(messages, data, bytes, timeout, message,
               [&](xoe::engine::Messages& in, auto limit) { return in.receive(from, tag, data, bytes, limit); });
}

xoe_status xoe_message_wait(xoe_message* message, int64_t timeout, int32_t* done) {
  return with(message, "message", [&](const xoe_message& it) -> Status {
    XOE_TRY(need(done, "done"));
    XOE_TRY(xoe::capi::check_number(timeout, 0, INT64_MAX, "timeout"));
    XOE_ASSIGN(const bool over, it.messages->wait(it.message, std::chrono::nanoseconds(timeout)));
    *done = over ? 1 : 0;
    return {};
  });
}

xoe_status xoe_message_peer(const xoe_message* message, int32_t* rank) {
  return with(message, "message",
              [&](const xoe_message& it) { return give(it.messages->source(it.message), rank, "rank"); });
}

void xoe_message_free(xoe_message* message) {
  (void)guard([&]() -> Status {
    if (message != nullptr) message->messages->abandon(message->message);
    delete message;
    return {};
  });
}

}  // extern "C"
