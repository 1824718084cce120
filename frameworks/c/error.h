// Turns errors and exceptions into codes and one message per thread.
#pragma once

#include <exception>
#include <new>
#include <stdexcept>
#include <string_view>
#include <utility>

#include "core/base/error.h"
#include "xoe/c.h"
#include "xoe/status.h"

namespace xoe::capi {

constexpr xoe_status code_of(Code code) { return static_cast<xoe_status>(code) + 1; }

// Sets this thread's message; returns the code.
xoe_status report(Code code, std::string_view message) noexcept;
const char* last_error() noexcept;

inline xoe_status report(const Status& status) noexcept {
  return status ? XOE_OK : report(status.error().code(), status.error().message());
}

// Runs body(), which returns a Status.
template <class Body>
xoe_status guard(Body&& body) noexcept {
  try {
    return report(std::forward<Body>(body)());
  } catch (const std::bad_alloc&) {
    return report(Code::kResourceExhausted, "no memory left");
  } catch (const std::length_error& e) {
    return report(Code::kResourceExhausted, e.what());
  } catch (const std::exception& e) {
    return report(Code::kInternal, e.what());
  } catch (...) {
    return report(Code::kInternal, "an exception of unknown type");
  }
}

// The error for a pointer that must not be null.
inline Status need(const void* pointer, std::string_view what) {
  if (pointer != nullptr) return {};
  return failure(Code::kInvalidArgument, "{} is null", what);
}

// Gives the caller a value; `to` must not be null.
template <class From, class To>
Status give(const From& value, To* to, std::string_view what) {
  XOE_TRY(need(to, what));
  *to = static_cast<To>(value);
  return {};
}

// guard() for a call of an object, which must not be null: body(*object).
template <class Object, class Body>
xoe_status with(Object* object, std::string_view what, Body&& body) noexcept {
  return guard([&]() -> Status {
    XOE_TRY(need(object, what));
    return body(*object);
  });
}

// Deletes an object; null does nothing.
template <class Object>
void destroy(Object* object) noexcept {
  (void)guard([&]() -> Status {
    delete object;
    return {};
  });
}

}  // namespace xoe::capi
