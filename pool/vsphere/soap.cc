#include "pool/vsphere/soap.h"

#include <algorithm>

#include <pugixml.hpp>

#include "core/base/error.h"

namespace xoe::pool::vsphere {
namespace {

constexpr int kMaxDepth = 64;

std::string_view without_prefix(std::string_view name) {
  const auto colon = name.find(':');
  return colon == std::string_view::npos ? name : name.substr(colon + 1);
}

// False: too deep.
bool copy(const pugi::xml_node& node, Element& element, int depth) {
  if (depth > kMaxDepth) return false;
  element.name = without_prefix(node.name());
  for (const pugi::xml_attribute& attribute : node.attributes()) {
    const std::string_view name = attribute.name();
    if (name == "type")
      element.type = attribute.value();
    else if (name.ends_with(":type") && !name.starts_with("xmlns:"))
      element.is_a = without_prefix(attribute.value());
  }
  element.text = node.text().get();
  for (const pugi::xml_node& each : node.children()) {
    if (each.type() != pugi::node_element) continue;
    if (!copy(each, element.children.emplace_back(), depth + 1)) return false;
  }
  return true;
}

// <Fault><faultstring>…</faultstring><detail><NotAuthenticatedFault xsi:type="NotAuthenticated">…
Fault fault_of(const Element& element) {
  Fault fault{.message = element.text_at("faultstring")};
  const Element* const detail = element.child("detail");
  if (detail == nullptr || detail->children.empty()) return fault;
  const Element& first = detail->children.front();
  fault.kind = first.is_a;
  if (fault.kind.empty()) {
    fault.kind = first.name;
    if (fault.kind.ends_with("Fault") && fault.kind.size() > 5) fault.kind.resize(fault.kind.size() - 5);
  }
  return fault;
}

}  // namespace

const Element* Element::child(std::string_view wanted) const {
  const auto found = std::ranges::find(children, wanted, &Element::name);
  return found == children.end() ? nullptr : &*found;
}

const Element* Element::at(std::string_view path) const {
  const Element* element = this;
  while (element != nullptr && !path.empty()) {
    const auto slash = path.find('/');
    element = element->child(path.substr(0, slash));
    path = slash == std::string_view::npos ? std::string_view() : path.substr(slash + 1);
  }
  return element;
}

std::string Element::text_at(std::string_view path) const {
  const Element* const found = at(path);
  return found == nullptr ? std::string() : found->text;
}

Reference reference_of(const Element& element) { return {element.type, element.text}; }

std::string fault_text(const Fault& fault) {
  if (fault.kind.empty()) return fault.message.empty() ? "it refused without a reason" : fault.message;
  return fault.message.empty() ? fault.kind : fmt::format("{} ({})", fault.message, fault.kind);
}

Result<Answer> parse_answer(std::string_view xml) {
  if (xml.size() > kMaxAnswer)
    return failure(Code::kDataLoss, "an answer of {} bytes; {} are the most", xml.size(), kMaxAnswer);
  pugi::xml_document document;
  const pugi::xml_parse_result parsed = document.load_buffer(xml.data(), xml.size(), pugi::parse_default);
  if (!parsed) return failure(Code::kDataLoss, "no XML at byte {}: {}", parsed.offset, parsed.description());
  Element envelope;
  if (!copy(document.document_element(), envelope, 0))
    return failure(Code::kDataLoss, "an answer with more than {} levels", kMaxDepth);
  const Element* const body = envelope.child("Body");
  if (envelope.name != "Envelope" || body == nullptr || body->children.empty())
    return failure(Code::kDataLoss, "no SOAP envelope with a body, but <{}>", envelope.name);
  Answer answer{.body = body->children.front()};
  if (answer.body.name == "Fault") answer.fault = fault_of(answer.body);
  return answer;
}

std::string escaped(std::string_view text) {
  std::string safe;
  for (const char c : text) {
    switch (c) {
      case '&': safe += "&amp;"; break;
      case '<': safe += "&lt;"; break;
      case '>': safe += "&gt;"; break;
      case '"': safe += "&quot;"; break;
      default: safe += c;
    }
  }
  return safe;
}

std::string element(std::string_view name, std::string_view text) {
  return fmt::format("<{}>{}</{}>", name, escaped(text), name);
}

std::string element(std::string_view name, bool value) {
  return element(name, std::string_view(value ? "true" : "false"));
}

std::string element(std::string_view name, const Reference& reference) {
  return fmt::format(R"(<{} type="{}">{}</{}>)", name, escaped(reference.type), escaped(reference.id), name);
}

std::string request(std::string_view method, const Reference& object, std::string_view arguments) {
  return fmt::format(
      R"(<?xml version="1.0" encoding="UTF-8"?><soapenv:Envelope xmlns:soapenv="http://schemas.xmlsoap.org/soap/envelope/" )"
      R"(xmlns:xsd="http://www.w3.org/2001/XMLSchema" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance">)"
      R"(<soapenv:Body><{0} xmlns="urn:vim25">{1}{2}</{0}></soapenv:Body></soapenv:Envelope>)",
      method, element("_this", object), arguments);
}

}  // namespace xoe::pool::vsphere
