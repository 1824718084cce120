#include "launch/agents/agent_job.h"

#include "base/error.h"
#include "remote/fields.h"
#include "remote/frame.h"

namespace xoe::launch {

std::string encode(const AgentJob& job) {
  remote::FieldWriter fields;
  for (const std::string* text : {&job.host, &job.first_host, &job.job, &job.secret, &job.store, &job.network_interface,
                                  &job.backend, &job.directory})
    fields.text(*text);
  fields.texts(job.command);
  fields.number(static_cast<std::int64_t>(job.env.size()));
  for (const auto& [name, value] : job.env) {
    fields.text(name);
    fields.text(value);
  }
  fields.number(static_cast<std::int64_t>(job.ranks.size()));
  for (const AgentRank& rank : job.ranks) {
    fields.number(rank.rank);
    fields.number(rank.cross_rank);
    fields.number(rank.cross_size);
  }
  fields.number(job.size);
  fields.number(static_cast<std::int64_t>(job.binding));
  fields.number(job.by_socket ? 1 : 0);
  fields.number(job.bind_gpus ? 1 : 0);
  fields.number(job.restarts ? 1 : 0);
  fields.number(job.host_timeout.count());
  return std::move(fields).take();
}

Result<AgentJob> decode_job(std::string_view text) {
  constexpr int kMostRanks = 1 << 20;
  remote::FieldReader fields(text);
  AgentJob job;
  for (std::string* one : {&job.host, &job.first_host, &job.job, &job.secret, &job.store, &job.network_interface,
                           &job.backend, &job.directory})
    *one = fields.text();
  job.command = fields.texts();
  for (auto left = fields.number<std::size_t>(0, text.size()); left > 0 && fields.good(); --left) {
    std::string name = fields.text();
    job.env.emplace_back(std::move(name), fields.text());
  }
  for (auto left = fields.number<std::size_t>(0, text.size()); left > 0 && fields.good(); --left) {
    AgentRank& rank = job.ranks.emplace_back();
    rank.rank = fields.number<int>(0, kMostRanks);
    rank.cross_rank = fields.number<int>(0, kMostRanks);
    rank.cross_size = fields.number<int>(1, kMostRanks);
  }
  job.size = fields.number<int>(1, kMostRanks);
  job.binding = fields.number<Binding>(0, static_cast<std::int64_t>(Binding::kNuma));
  job.by_socket = fields.number<int>(0, 1) == 1;
  job.bind_gpus = fields.number<int>(0, 1) == 1;
  job.restarts = fields.number<int>(0, 1) == 1;
  job.host_timeout = std::chrono::nanoseconds(fields.number<std::int64_t>(1'000'000, 1'000'000'000'000'000));
  if (!fields.good() || !fields.empty()) return remote::malformed_message("job");
  if (job.command.empty() || job.ranks.empty()) return remote::malformed_message("job without a program or ranks");
  return job;
}

}  // namespace xoe::launch
