#include "pool/server/host_reporter.h"

#include "core/base/error.h"
#include "pool/server/wire.h"

namespace xoe::pool {
namespace {

bool is_not_allowed(const Reply& reply) { return reply.status == 401 || reply.status == 403; }
// A refusal of any report, not of this one.
bool takes_nothing(const Reply& reply) { return reply.status >= 500 || reply.status == 429; }

}  // namespace

Result<HostReporter::Round> HostReporter::send(const std::vector<HostReport>& reports, std::optional<Moment> looked) {
  Round round;
  std::map<std::string, std::string> refused;
  for (HostReport report : reports) {
    if (looked) report.age = std::chrono::duration_cast<Span>(std::chrono::steady_clock::now() - *looked);
    XOE_ASSIGN(Reply reply, client_.post("/v1/report", json_of(report)));
    if (is_not_allowed(reply)) {
      round.not_allowed = std::move(reply);
      return round;
    }
    if (takes_nothing(reply)) return failure(Code::kUnavailable, "{}", reply.message());
    if (!reply.ok()) {
      refused.emplace(report.host, reply.message());
      round.refused.insert(report.host);
      continue;
    }
    XOE_ASSIGN(wire::Orders orders, orders_of(reply.body));
    round.orders.push_back(std::move(orders));
  }
  for (const auto& [host, why] : refused)
    if (const auto before = refused_.find(host); before == refused_.end() || before->second != why)
      round.news.push_back(fmt::format("the report of {} is refused: {}", host, why));
  refused_ = std::move(refused);
  return round;
}

}  // namespace xoe::pool
