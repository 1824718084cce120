// vSphere's SOAP messages as plain values.
#pragma once

#include <compare>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "xoe/status.h"

namespace xoe::pool::vsphere {

// An element of an answer, without its namespaces.
struct Element {
  std::string name = {};
  std::string type = {};  // attribute `type`: of a reference, the kind of its object
  std::string is_a = {};  // attribute `xsi:type`: which of several types the value has
  std::string text = {};
  std::vector<Element> children = {};

  // nullptr: there is none.
  const Element* child(std::string_view wanted) const;
  // By path: "backing/id"; nullptr: there is none.
  const Element* at(std::string_view path) const;
  // Empty where there is none.
  std::string text_at(std::string_view path) const;
};

// A managed object.
struct Reference {
  std::string type = {};
  std::string id = {};
  auto operator<=>(const Reference&) const = default;
};
Reference reference_of(const Element& element);

// What vCenter refuses, and why.
struct Fault {
  std::string kind = {};  // "InvalidPowerState"; empty: not told
  std::string message = {};
};
// Of a fault element with `xsi:type` or a name that tells its kind.
std::string fault_text(const Fault& fault);

struct Answer {
  std::optional<Fault> fault = {};
  Element body = {};  // "LoginResponse"
};

inline constexpr std::size_t kMaxAnswer = std::size_t{64} << 20;  // bytes

// `data_loss`: not a SOAP answer, or one that is too large or too deep.
Result<Answer> parse_answer(std::string_view xml);

// --- requests ---

std::string escaped(std::string_view text);
// <NAME>TEXT</NAME>
std::string element(std::string_view name, std::string_view text);
std::string element(std::string_view name, bool value);
// <NAME type="TYPE">ID</NAME>
std::string element(std::string_view name, const Reference& reference);
// The whole message: a call of a method of an object, whose further arguments are XML.
std::string request(std::string_view method, const Reference& object, std::string_view arguments = {});

}  // namespace xoe::pool::vsphere
