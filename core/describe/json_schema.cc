#include "core/describe/json_schema.h"

#include <cmath>

namespace xoe::describe {
namespace {

OrderedJson number_of(double value, bool whole) {
  return whole ? OrderedJson(static_cast<std::int64_t>(value)) : OrderedJson(value);
}

}  // namespace

OrderedJson reference_to(std::string_view schema) { return {{"$ref", fmt::format("#/components/schemas/{}", schema)}}; }

OrderedJson number_schema(bool whole, const Rules& rules, Direction direction) {
  OrderedJson schema{{"type", whole ? "integer" : "number"}};
  if (direction == Direction::kOutput) return schema;
  if (std::isfinite(rules.least)) schema["minimum"] = number_of(rules.least, whole);
  if (std::isfinite(rules.above)) schema["exclusiveMinimum"] = number_of(rules.above, whole);
  if (std::isfinite(rules.most)) schema["maximum"] = number_of(rules.most, whole);
  return schema;
}

OrderedJson text_schema(const Rules& rules, Direction direction) {
  OrderedJson schema{{"type", "string"}};
  if (direction == Direction::kOutput) return schema;
  if (!rules.pattern.empty()) schema["pattern"] = rules.pattern;
  schema["maxLength"] = rules.longest;
  if (rules.shortest > 0) schema["minLength"] = rules.shortest;
  return schema;
}

}  // namespace xoe::describe
