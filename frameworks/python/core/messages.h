// Messages from rank to rank as Python objects.
#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>
#include <memory>
#include <string>

#include "frameworks/python/core/errors.h"
#include "xoe/c.h"

namespace xoe::python {

// For one thread at a time, which holds the interpreter's lock.
class Message {
 public:
  // `keep`: the object that owns the memory.
  Message(xoe_message* message, nb::object keep) : keep_(std::move(keep)), message_(message) {}

  bool poll();
  void wait();
  int peer() const;

 private:
  struct Free {
    void operator()(xoe_message* message) const noexcept { xoe_message_free(message); }
  };

  // Of a call of xoe_message_wait(). Once the message is over, it releases the memory's owner.
  bool is_over(xoe_status status, std::int32_t done);

  nb::object keep_;  // outlives the message
  std::unique_ptr<xoe_message, Free> message_;
  bool over_ = false;
};

class Messages {
 public:
  explicit Messages(xoe_messages* messages) : messages_(messages, &xoe_messages_close) {}

  // Seconds; 0: the engine's limit.
  Message send(int to, std::uint64_t tag, std::uintptr_t data, std::size_t bytes, double timeout, nb::object keep);
  Message receive(int from, std::uint64_t tag, std::uintptr_t data, std::size_t bytes, double timeout, nb::object keep);
  void close() { messages_.reset(); }

 private:
  // Throws once it is closed. Calls of other threads keep it meanwhile.
  std::shared_ptr<xoe_messages> get() const;

  std::shared_ptr<xoe_messages> messages_;  // guarded by the interpreter's lock
};

void bind_messages(nb::module_& module);

}  // namespace xoe::python
