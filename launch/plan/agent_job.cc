#include "launch/plan/agent_job.h"

#include <iterator>

#include "core/base/bytes.h"
#include "core/base/error.h"
#include "launch/remote/frame.h"

namespace xoe::launch {

std::string encode(const AgentJob& job) {
  ByteWriter fields;
  for (const std::string* text : {&job.host, &job.first_host, &job.job, &job.secret, &job.store, &job.network_interface,
                                  &job.backend, &job.directory})
    fields.text<std::uint32_t>(*text);
  remote::write_texts(fields, job.command);
  remote::write_texts(fields, job.notices);
  fields.fixed(static_cast<std::int64_t>(job.env.size()));
  for (const auto& [name, value] : job.env) {
    fields.text<std::uint32_t>(name);
    fields.text<std::uint32_t>(value);
  }
  fields.fixed(static_cast<std::int64_t>(job.ranks.size()));
  for (const AgentRank& rank : job.ranks) {
    for (const int number : {rank.rank, rank.cross_rank, rank.cross_size}) fields.fixed(std::int64_t{number});
    fields.text<std::uint32_t>(rank.device);
  }
  for (const int number : {job.first, job.size, static_cast<int>(job.binding), job.by_socket ? 1 : 0,
                           job.bind_gpus ? 1 : 0, job.restarts ? 1 : 0})
    fields.fixed(std::int64_t{number});
  fields.fixed(std::int64_t{job.host_timeout.count()});
  return std::move(fields).take();
}

Result<AgentJob> decode_job(std::string_view text) {
  constexpr std::int64_t kMaxRanks = 1 << 20;
  ByteReader fields(text);
  const auto number = [&fields](std::int64_t low, std::int64_t high) {
    return static_cast<int>(fields.fixed<std::int64_t>(low, high));
  };
  AgentJob job;
  for (std::string* one : {&job.host, &job.first_host, &job.job, &job.secret, &job.store, &job.network_interface,
                           &job.backend, &job.directory})
    *one = remote::read_text(fields);
  job.command = remote::read_texts(fields);
  job.notices = remote::read_texts(fields);
  for (auto left = fields.fixed<std::int64_t>(0, std::ssize(text)); left > 0 && fields.ok(); --left) {
    std::string name = remote::read_text(fields);
    job.env.emplace_back(std::move(name), remote::read_text(fields));
  }
  for (auto left = fields.fixed<std::int64_t>(0, std::ssize(text)); left > 0 && fields.ok(); --left) {
    AgentRank& rank = job.ranks.emplace_back();
    rank.rank = number(0, kMaxRanks);
    rank.cross_rank = number(0, kMaxRanks);
    rank.cross_size = number(1, kMaxRanks);
    rank.device = remote::read_text(fields);
  }
  job.first = number(0, static_cast<int>(job.ranks.size()));
  job.size = number(1, kMaxRanks);
  job.binding = static_cast<Binding>(number(0, static_cast<int>(Binding::kNuma)));
  job.by_socket = number(0, 1) == 1;
  job.bind_gpus = number(0, 1) == 1;
  job.restarts = number(0, 1) == 1;
  job.host_timeout = std::chrono::nanoseconds(fields.fixed<std::int64_t>(1'000'000, 1'000'000'000'000'000));
  if (!fields.at_end()) return remote::malformed_message("job");
  if (job.command.empty() || job.ranks.empty()) return remote::malformed_message("job without a program or ranks");
  return job;
}

}  // namespace xoe::launch
