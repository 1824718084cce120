#include "pool/server/openapi.h"

#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "core/describe/json_schema.h"
#include "pool/server/wire.h"

namespace xoe::pool {
namespace {

using describe::Direction;
using describe::OrderedJson;

constexpr std::string_view kJson = "application/json";

struct Answer {
  std::string_view what;
  OrderedJson schema;
  std::string_view type = kJson;
};

struct Body {
  OrderedJson schema;
  bool required = true;
};

struct Operation {
  std::string_view method;
  std::string_view path;
  std::string_view id;
  std::string_view summary;
  std::string_view description = {};  // who may ask; empty: anybody, without a token
  std::vector<OrderedJson> parameters = {};
  std::optional<Body> body = {};
  Answer answer;
  std::vector<int> refusals = {};  // besides those that every request may get
};

// A struct's schema, or a reference to it where others name it.
template <class T>
OrderedJson schema(Direction direction) {
  return describe::value_schema<T>({}, direction);
}
template <class T>
Body body(bool required = true) {
  return {schema<T>(Direction::kInput), required};
}
template <class T>
Answer json(std::string_view what) {
  return {what, schema<T>(Direction::kOutput)};
}

OrderedJson whole_number(std::int64_t least, std::int64_t most, std::optional<std::int64_t> otherwise = {}) {
  OrderedJson schema{{"type", "integer"}, {"minimum", least}, {"maximum", most}};
  if (otherwise) schema["default"] = *otherwise;
  return schema;
}

OrderedJson parameter(std::string_view name, std::string_view in, std::string_view what, OrderedJson schema,
                      bool required = false) {
  OrderedJson parameter{{"name", name}, {"in", in}};
  if (required) parameter["required"] = true;
  if (!what.empty()) parameter["description"] = what;
  parameter["schema"] = std::move(schema);
  return parameter;
}

OrderedJson lease_id() { return parameter("id", "path", "", whole_number(0, 999'999'999'999'999), true); }
Answer lease_answer() { return json<wire::LeaseAnswer>("the lease: open, waiting, or ended because it was refused"); }

std::vector<Operation> lease_operations() {
  return {
      {.method = "get",
       .path = "/v1/leases",
       .id = "showLeases",
       .summary = "Several leases of the user that asks, in any state",
       .description = "Role: user (its own). One that waits is kept in the queue.",
       .parameters = {parameter("ids", "query", "numbers of leases, 1,024 at most: 3,4",
                                {{"type", "string"}, {"pattern", "^[0-9]{1,15}(,[0-9]{1,15}){0,1023}$"}}, true)},
       .answer = json<wire::Leases>("the leases, in the order of the numbers"),
       .refusals = {404}},
      {.method = "post",
       .path = "/v1/leases",
       .id = "acquire",
       .summary = "Ask for GPUs",
       .description = "Role: user.",
       .body = body<wire::Request>(),
       .answer = lease_answer(),
       .refusals = {409}},
      {.method = "post",
       .path = "/v1/leases/adopt",
       .id = "adopt",
       .summary = "Make a lease of GPUs that the user's processes use already",
       .description = "Role: user.",
       .body = body<wire::Request>(),
       .answer = lease_answer(),
       .refusals = {409}},
      {.method = "get",
       .path = "/v1/leases/{id}",
       .id = "showLease",
       .summary = "A lease in any state",
       .description = "Role: user (its own), lead.",
       .parameters = {lease_id(),
                      parameter("wait", "query", "seconds, 30 at most: answer after it has left the queue or that time",
                                whole_number(0, 100, 0))},
       .answer = lease_answer(),
       .refusals = {404}},
  };
}

Operation change_of_a_lease(std::string_view path, std::string_view id, std::string_view summary,
                            std::string_view roles, Body body) {
  return {.method = "post",
          .path = path,
          .id = id,
          .summary = summary,
          .description = roles,
          .parameters = {lease_id()},
          .body = std::move(body),
          .answer = lease_answer(),
          .refusals = {404}};
}

std::vector<Operation> changes_of_leases() {
  constexpr std::string_view kLeads = "Role: lead (of the team), admin.";
  std::vector<Operation> changes = {
      change_of_a_lease("/v1/leases/{id}/renew", "renew", "Make a lease end later", "Role: user.",
                        body<wire::Renewal>()),
      change_of_a_lease("/v1/leases/{id}/release", "release", "Give its GPUs back, or leave the queue", "Role: user.",
                        body<wire::Release>(false)),
      change_of_a_lease("/v1/leases/{id}/revoke", "revoke", "End a lease of the team", kLeads, body<wire::Reason>()),
      change_of_a_lease("/v1/leases/{id}/exempt", "exempt", "Never reclaim a lease as idle", kLeads,
                        body<wire::Reason>())};
  changes.front().refusals.push_back(409);
  return changes;
}

std::vector<Operation> view_operations() {
  constexpr std::int64_t kMostNumber = 1'000'000'000'000'000;
  return {
      {.method = "get",
       .path = "/v1/status",
       .id = "status",
       .summary = "GPUs, leases, queue, teams, and what does not fit",
       .description = "Role: user.",
       .answer = json<wire::Status>("now")},
      {.method = "get",
       .path = "/v1/me",
       .id = "me",
       .summary = "The user whose token this is",
       .description = "Role: user.",
       .answer = json<wire::Me>("itself")},
      {.method = "get",
       .path = "/v1/events",
       .id = "events",
       .summary = "The audit log",
       .description = "Role: lead, admin.",
       .parameters = {parameter("after", "query", "only lines with a higher number", whole_number(0, kMostNumber, 0)),
                      parameter("last", "query", "only the newest so many; 0: all", whole_number(0, 1000, 0))},
       .answer = json<wire::Events>("at most 1000 lines, the oldest first")},
      {.method = "get",
       .path = "/v1/events/stream",
       .id = "stream",
       .summary = "What changes, as server-sent events",
       .description = "Role: user.",
       .parameters = {parameter("Last-Event-ID", "header", "the last line of the audit log that the client has",
                                whole_number(0, kMostNumber))},
       .answer = {.what = "`status`: the fields of /v1/status that changed; `audit`: a line of the audit log (leads, "
                          "admins); `end`: why the stream ends",
                  .schema = {{"type", "string"}},
                  .type = "text/event-stream"}},
      {.method = "get",
       .path = "/v1/usage",
       .id = "usage",
       .summary = "GPU-hours by hour, team and user",
       .description = "Role: user. Refused (400) where there are more than 100000 rows.",
       .parameters = {parameter("days", "query", "of the last so many days", whole_number(1, 366, 7))},
       .answer = json<wire::Usage>("GPU-hours")},
  };
}

std::vector<Operation> admin_operations() {
  return {
      {.method = "post",
       .path = "/v1/report",
       .id = "report",
       .summary = "What the agent of a host saw",
       .description = "Role: agent, admin.",
       .body = body<wire::Report>(),
       .answer = json<wire::Orders>("taken"),
       .refusals = {409}},
      {.method = "post",
       .path = "/v1/teams",
       .id = "setTeam",
       .summary = "Make or change a team; one that exists keeps what is left out",
       .description = "Role: admin.",
       .body = body<Team>(),
       .answer = json<wire::Nothing>("done")},
      {.method = "post",
       .path = "/v1/users",
       .id = "setUser",
       .summary = "Make or change a user; one that exists keeps what is left out",
       .description = "Role: admin.",
       .body = body<wire::UserForm>(),
       .answer = json<wire::NewToken>("done")},
      {.method = "post",
       .path = "/v1/users/remove",
       .id = "removeUser",
       .summary = "Remove a user; its leases stay until they end",
       .description = "Role: admin.",
       .body = body<wire::Name>(),
       .answer = json<wire::Nothing>("done")},
      {.method = "post",
       .path = "/v1/hosts/forget",
       .id = "forgetHost",
       .summary = "Forget a host that is offline, with its GPUs; no lease may need them",
       .description = "Role: admin.",
       .body = body<wire::Name>(),
       .answer = json<wire::Nothing>("done")},
      {.method = "post",
       .path = "/v1/backup",
       .id = "backup",
       .summary = "Write the database to a new file of the server's host",
       .description = "Role: admin.",
       .body = body<wire::Path>(),
       .answer = json<wire::Path>("written"),
       .refusals = {409}},
  };
}

std::vector<Operation> machine_operations() {
  return {
      {.method = "get",
       .path = "/v1/openapi.json",
       .id = "openapi",
       .summary = "This document",
       .answer = {"OpenAPI 3.1", {{"type", "object"}}}},
      {.method = "get",
       .path = "/metrics",
       .id = "metrics",
       .summary = "The state in Prometheus' text format",
       .description = "Role: user.",
       .answer = {.what = "metrics, each with help and type",
                  .schema = {{"type", "string"}},
                  .type = "text/plain; version=0.0.4; charset=utf-8"}},
  };
}

constexpr std::pair<int, std::string_view> kRefusals[] = {
    {400, "the request is wrong"},
    {401, "no user has the token"},
    {403, "the role may not do this"},
    {409, "a limit, or a promise to another"},
    {411, "a body in chunks: tell its length"},
    {415, "a body with a Content-Encoding"},
    {413, "too large"},
    {429, "too many at once: wait for as long as Retry-After says"},
    {503, "the database takes no changes now: send it again"},
    {404, "there is no such request"}};

OrderedJson content(std::string_view type, OrderedJson schema) {
  return {{std::string(type), {{"schema", std::move(schema)}}}};
}

OrderedJson answers_of(const Operation& operation) {
  OrderedJson answers{
      {"200",
       {{"description", operation.answer.what}, {"content", content(operation.answer.type, operation.answer.schema)}}}};
  if (operation.description.empty()) return answers;
  std::vector<int> refusals = {400, 401, 403, 429, 503};
  refusals.insert(refusals.end(), operation.refusals.begin(), operation.refusals.end());
  if (operation.body) refusals.insert(refusals.end(), {413, 411, 415});
  for (const int status : refusals) {
    const std::string text = std::to_string(status);
    answers[text] = {{"$ref", "#/components/responses/" + text}};
  }
  return answers;
}

OrderedJson described(const Operation& operation) {
  OrderedJson json{{"operationId", operation.id}, {"summary", operation.summary}};
  if (!operation.description.empty()) json["description"] = operation.description;
  if (!operation.parameters.empty()) json["parameters"] = operation.parameters;
  if (operation.body)
    json["requestBody"] = {{"required", operation.body->required}, {"content", content(kJson, operation.body->schema)}};
  json["responses"] = answers_of(operation);
  if (operation.description.empty()) json["security"] = OrderedJson::array();
  return json;
}

template <class... T>
void add_schemas(OrderedJson& schemas, Direction direction) {
  ((schemas[std::string(schema_name_of(static_cast<const T*>(nullptr)))] = describe::schema_of<T>(direction)), ...);
}

OrderedJson components() {
  OrderedJson answers = OrderedJson::object();
  const OrderedJson refusal = content(kJson, describe::reference_to("Error"));
  for (const auto& [status, what] : kRefusals)
    answers[std::to_string(status)] = {{"description", what}, {"content", refusal}};
  OrderedJson schemas = OrderedJson::object();
  add_schemas<wire::Refusal>(schemas, Direction::kOutput);
  add_schemas<wire::Request>(schemas, Direction::kInput);
  add_schemas<wire::ShownLease, wire::LeaseAnswer>(schemas, Direction::kOutput);
  add_schemas<GpuProcess>(schemas, Direction::kInput);
  add_schemas<wire::ShownGpu, wire::Status, wire::Me, Event, wire::ShownUsage>(schemas, Direction::kOutput);
  add_schemas<wire::ReportedGpu, wire::Report, Team, wire::UserForm, Vm>(schemas, Direction::kInput);
  return {{"securitySchemes", {{"token", {{"type", "http"}, {"scheme", "bearer"}}}}},
          {"responses", std::move(answers)},
          {"schemas", std::move(schemas)}};
}

std::string make_document() {
  OrderedJson paths = OrderedJson::object();
  for (const auto& operations :
       {lease_operations(), changes_of_leases(), view_operations(), admin_operations(), machine_operations()})
    for (const Operation& operation : operations)
      paths[std::string(operation.path)][std::string(operation.method)] = described(operation);
  const OrderedJson document{
      {"openapi", "3.1.0"},
      {"info",
       {{"title", "Xoe's GPU pool"},
        {"version", "1"},
        {"description",
         "docs/reference/pool-http.md explains it. Times are seconds since 1970 and spans seconds, both "
         "with a fraction. Every request may be sent twice."},
        {"license", {{"name", "Apache-2.0"}, {"identifier", "Apache-2.0"}}}}},
      {"security", {{{"token", OrderedJson::array()}}}},
      {"paths", std::move(paths)},
      {"components", components()}};
  return document.dump(1) + "\n";
}

}  // namespace

const std::string& openapi_document() {
  static const std::string document = make_document();
  return document;
}

}  // namespace xoe::pool
