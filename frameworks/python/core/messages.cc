#include "frameworks/python/core/messages.h"

#include <nanobind/stl/string.h>

#include <algorithm>
#include <utility>

#include "frameworks/python/core/engine.h"

namespace xoe::python {
namespace {

std::int64_t nanoseconds(double seconds) {
  constexpr double kLongest = 1e9;
  return static_cast<std::int64_t>(std::clamp(seconds, 0.0, kLongest) * 1e9);
}

// Collective.
Messages open(const Engine& engine, const std::string& name) {
  constexpr std::int32_t kProgressThread = 1;
  xoe_messages* made = nullptr;
  const EnginePtr used = engine.get();
  check(call_released([&] { return xoe_messages_open(used.get(), name.c_str(), kProgressThread, &made); }));
  return Messages(made);
}

}  // namespace

bool Message::is_over(xoe_status status, std::int32_t done) {
  if (status == XOE_OK && done == 0) return false;
  keep_ = nb::none();
  return over_ = true;
}

bool Message::poll() {
  if (over_) return true;
  std::int32_t done = 0;
  const xoe_status status = call_released([&] { return xoe_message_wait(message_.get(), 0, &done); });
  return is_over(status, done);  // wait() tells of an error
}

void Message::wait() {
  for (std::int32_t done = 0; done == 0;) {
    const xoe_status status = call_released([&] { return xoe_message_wait(message_.get(), kSignalTimeout, &done); });
    is_over(status, done);
    check(status);
    look_at_signals();
  }
}

int Message::peer() const {
  std::int32_t rank = 0;
  check(xoe_message_peer(message_.get(), &rank));
  return rank;
}

std::shared_ptr<xoe_messages> Messages::get() const {
  if (!messages_) raise(XOE_UNAVAILABLE, "messages were closed");
  return messages_;
}

Message Messages::send(int to, std::uint64_t tag, std::uintptr_t data, std::size_t bytes, double timeout,
                       nb::object keep) {
  xoe_message* made = nullptr;
  check(call_released([&, used = get()] {
    return xoe_message_send(used.get(), to, tag, reinterpret_cast<const void*>(data), bytes, nanoseconds(timeout),
                            &made);
  }));
  return {made, std::move(keep)};
}

Message Messages::receive(int from, std::uint64_t tag, std::uintptr_t data, std::size_t bytes, double timeout,
                          nb::object keep) {
  xoe_message* made = nullptr;
  check(call_released([&, used = get()] {
    return xoe_message_receive(used.get(), from, tag, reinterpret_cast<void*>(data), bytes, nanoseconds(timeout),
                               &made);
  }));
  return {made, std::move(keep)};
}

void bind_messages(nb::module_& module) {
  nb::class_<Message>(module, "Message")
      .def("poll", &Message::poll, "Whether it is over, well or not. Does not block.")
      .def("wait", &Message::wait,
           "Blocks until it has been received, or its memory is free again, without the interpreter's lock. Raises its "
           "own error.")
      .def("peer", &Message::peer, "The rank that it came from, or goes to.");
  nb::class_<Messages>(module, "Messages")
      .def(
          "__init__",
          [](Messages* messages, const Engine& engine, const std::string& name) {
            new (messages) Messages(open(engine, name));
          },
          nb::arg("engine"), nb::arg("name"), "Messages between the ranks of the engine. Collective over its world.")
      .def("send", &Messages::send, nb::arg("to"), nb::arg("tag"), nb::arg("data"), nb::arg("bytes"),
           nb::arg("timeout") = 0.0, nb::arg("keep") = nb::none(),
           "Starts a message of bytes at an address. timeout: seconds; 0: the engine's limit. keep: what owns the "
           "memory.")
      .def("receive", &Messages::receive, nb::arg("source"), nb::arg("tag"), nb::arg("data"), nb::arg("bytes"),
           nb::arg("timeout") = 0.0, nb::arg("keep") = nb::none(),
           "Receives the next message of a rank with this tag; source -1: of any rank.")
      .def("close", &Messages::close, "Ends what is under way, here and at the peers.");
}

}  // namespace xoe::python
