#include "core/comm/join_hosts.h"

#include <unistd.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "core/backend/hierarchical/backend.h"
#include "core/backend/net/choose_mpi.h"
#include "core/backend/net/plugin.h"
#include "core/base/error.h"
#include "core/base/random_token.h"
#include "core/base/text.h"
#include "core/bootstrap/await_ranks.h"
#include "core/bootstrap/own_address.h"
#include "core/bootstrap/own_keys.h"
#include "core/bootstrap/proof.h"
#include "core/bootstrap/socket_address.h"
#include "core/bootstrap/store.h"
#include "core/bootstrap/store_client.h"
#include "core/bootstrap/user_key.h"

namespace xoe {
namespace {

// After rank 0 has waited for as long as all others: its message is the better one.
constexpr std::chrono::nanoseconds kGatherTime = std::chrono::seconds(2);

constexpr std::string_view kEncrypt = "encrypt";

// Behind the prefix of a group's keys: the ranks of all hosts.
constexpr std::string_view kRanksKey = "ranks";

// Opens the first of the nets that loads. The error has the messages of all.
Result<std::unique_ptr<net::Provider>> open_net(const std::vector<std::string>& names, const net::NetOptions& options,
                                                const Env& env) {
  std::string problems;
  for (const std::string& name : names) {
    std::string plugin = name;
    if (name == "mpi") {
      auto chosen = net::choose_mpi(env);
      if (!chosen) {
        problems += (problems.empty() ? "" : "; ") + chosen.error().message();
        continue;
      }
      plugin = *chosen;
    }
    auto opened = net::open_plugin(plugin, options, env.text("XOE_PLUGIN_DIR").value_or(""));
    if (opened) return opened;
    problems += (problems.empty() ? "" : "; ") + opened.error().message();
  }
  return failure(Code::kUnsupported, "no backend between hosts: {}", problems);
}

// A store for a launcher without one: rank 0 serves it, and all ranks learn its address through the library's launcher.
Result<std::unique_ptr<bootstrap::Store>> connect_through(net::Provider& provider, const bootstrap::LaunchInfo& info,
                                                          const std::string& address, std::chrono::nanoseconds timeout,
                                                          std::unique_ptr<bootstrap::StoreServer>& server) {
  XOE_ASSIGN(const net::Exchange exchange, provider.bootstrap());
  std::string mine, secret;
  if (info.topology.rank == 0) {
    XOE_ASSIGN(secret, random_token());
    const bool v6 = address.find(':') != std::string::npos;
    XOE_ASSIGN(server, bootstrap::serve_store(
                           v6 ? fmt::format("tcp:[{}]:0", address) : fmt::format("tcp:{}:0", address), secret));
    mine = server->address() + " " + secret;
  }
  XOE_ASSIGN(const auto all, exchange(mine));
  const auto parts = split_text(all.front(), ' ');
  if (parts.size() != 2) return failure(Code::kInternal, "rank 0 announced its store as '{}'", all.front());
  XOE_ASSIGN(const auto at, bootstrap::SocketAddress::parse(parts[0]));
  return bootstrap::connect_store(at, parts[1], /*wait=*/true, timeout);
}

// Whether the secret may come through the library's launcher.
Status check_encryption(const BackendChoice& choice, const bootstrap::LaunchInfo& info) {
  if (!choice.encrypt) return {};
  return failure(
      Code::kUnsupported,
      "XOE_ENCRYPT=1: {} does not say where the ranks of several hosts can meet, and MPI would carry the key "
      "in clear; use xoe run, or set XOE_STORE and XOE_SECRET",
      info.launcher);
}

// Exchanges the ranks' "host address pid", "placement-free" or nothing, and "encrypt" or nothing, which rank 0 gathers
// for all.
Result<std::vector<hierarchical::RankInfo>> exchange_ranks(bootstrap::Store& store, const std::string& keys,
                                                           const Topology& topology, const hierarchical::RankInfo& mine,
                                                           std::chrono::nanoseconds timeout) {
  const auto key = [&](int rank) { return fmt::format("{}rank/{}", keys, rank); };
  XOE_TRY(store.set(key(topology.rank),
                    fmt::format("{}\t{}\t{}\t{}\t{}", mine.host, mine.address, mine.pid,
                                mine.in_rank_order ? kPlacementFree : "", mine.encrypts ? kEncrypt : "")));
  if (topology.rank == 0) {
    bootstrap::AwaitedRanks awaited;
    for (int rank = 0; rank < topology.size; ++rank) {
      awaited.keys.push_back(key(rank));
      awaited.ranks.push_back(rank);
    }
    XOE_ASSIGN(const auto all, bootstrap::await_ranks(store, awaited, timeout));
    XOE_TRY(store.set(keys + std::string(kRanksKey), fmt::format("{}", fmt::join(all, "\n"))));
  }
  // Rank 0 gathers them, and says who is missing.
  XOE_ASSIGN(const auto tables, bootstrap::await_ranks(store, {.keys = {keys + std::string(kRanksKey)}, .ranks = {0}},
                                                       timeout + kGatherTime));
  const std::string& table = tables.front();
  std::vector<hierarchical::RankInfo> ranks;
  for (const std::string& line : split_text(table, '\n')) {
    const auto fields = split_text(line, '\t');
    const auto pid = fields.size() == 5 ? parse_integer(fields[2]) : std::nullopt;
    if (!pid) return failure(Code::kInternal, "a rank announced itself as '{}'", line);
    ranks.push_back({.host = fields[0],
                     .address = fields[1],
                     .pid = static_cast<int>(*pid),
                     .in_rank_order = fields[3] == kPlacementFree,
                     .encrypts = fields[4] == kEncrypt});
  }
  if (ranks.size() != index(topology.size))
    return failure(Code::kInternal, "{} announcements of {} ranks", ranks.size(), topology.size);
  return ranks;
}

// A choice that all ranks must make alike, because ranks that choose differently would wait for each other.
struct CommonChoice {
  std::string_view variable;
  bool hierarchical::RankInfo::*made;
  std::string_view yes, no;  // its values

  Status check(const std::vector<hierarchical::RankInfo>& ranks) const {
    const auto other = std::ranges::find(ranks, !(ranks[0].*made), made);
    if (other == ranks.end()) return {};
    const bool first = ranks[0].*made;
    return failure(Code::kInvalidArgument, "rank 0 has {}={}, rank {} (host {}) has {}; set the same for all ranks",
                   variable, first ? yes : no, other - ranks.begin(), other->host, first ? no : yes);
  }
};

constexpr CommonChoice kOrder{.variable = "XOE_DETERMINISTIC",
                              .made = &hierarchical::RankInfo::in_rank_order,
                              .yes = kPlacementFree,
                              .no = "placement"};
constexpr CommonChoice kEncryption{
    .variable = "XOE_ENCRYPT", .made = &hierarchical::RankInfo::encrypts, .yes = "1", .no = "0"};

// The launcher's numbers must match the hosts that the ranks report.
Status check_hosts(const std::vector<hierarchical::RankInfo>& ranks, const Topology& topology) {
  const auto& own = ranks[index(topology.rank)];
  const auto here = std::ranges::count(ranks, own.host, &hierarchical::RankInfo::host);
  if (here == topology.local_size) return {};
  return failure(Code::kInvalidArgument,
                 "rank {}: its launcher says that this host runs {}, but {} by their own report on {}; give hosts "
                 "different names (XOE_HOSTNAME)",
                 topology.rank, counted(topology.local_size, "rank"),
                 counted(here, "rank") + (here == 1 ? " runs" : " run"), own.host);
}

// The secret for connections between hosts: the launcher's, or one that rank 0 chooses.
Result<std::string> common_secret(bootstrap::Store& store, const hierarchical::ContextOptions& options, int rank) {
  if (!options.secret.empty()) return options.secret;
  if (rank == 0) {
    XOE_ASSIGN(const std::string token, random_token());
    XOE_TRY(store.set(options.keys + "secret", token));
  }
  return store.get(options.keys + "secret", options.start_timeout);
}

Result<hierarchical::ContextOptions> options_of(const bootstrap::LaunchInfo& info, const Env& env,
                                                const std::string& address, const JoinSettings& settings,
                                                const BackendChoice& choice) {
  hierarchical::ContextOptions options{.keys = fmt::format("{}/", info.group),
                                       .secret = info.secret,
                                       .address = address,
                                       .start_timeout = settings.start_timeout,
                                       .connect_limit = settings.connect_limit,
                                       .waits = settings.waits,
                                       .arena_bytes = settings.arena_bytes,
                                       .routing = {.flat = choice.flat, .in_rank_order = choice.in_rank_order},
                                       .warn = settings.warn};
  XOE_ASSIGN(const auto silence, env.seconds("XOE_HOST_TIMEOUT"));
  if (silence)
    options.silence = std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::duration<double>(*silence));
  return options;
}

std::string store_host(const std::string& store) {
  const auto at = bootstrap::SocketAddress::resolve(store);
  return at && at->remote() ? at->host() : "";
}

}  // namespace

std::string key_of(std::string_view secret, std::string_view group) {
  return bootstrap::make_key(secret, fmt::format("group {}", group));
}

Result<Joined> join_many_hosts(bootstrap::LaunchInfo info, const Env& env, const JoinSettings& settings,
                               const BackendChoice& choice) {
  const Topology& topology = info.topology;
  const std::string interfaces = env.text("XOE_INTERFACE").value_or("");
  XOE_ASSIGN(const std::string address, bootstrap::own_address(interfaces, store_host(info.store)));
  XOE_ASSIGN(auto provider, open_net(choice.nets,
                                     {.address = address,
                                      .interfaces = interfaces,
                                      .local_rank = topology.local_rank,
                                      .encrypt = choice.encrypt,
                                      .warn = settings.warn},
                                     env));
  std::unique_ptr<bootstrap::StoreServer> server;
  std::unique_ptr<bootstrap::Store> store;
  const bool several_hosts = topology.size != topology.local_size;
  if (several_hosts && info.secret.empty() && !info.meeting.empty()) {
    XOE_ASSIGN(info.secret, bootstrap::job_secret(env, info.job));
  }
  if (several_hosts && info.store.empty() && info.meeting.empty()) {
    XOE_TRY(check_encryption(choice, info));
    XOE_ASSIGN(store, connect_through(*provider, info, address, settings.start_timeout, server));
  } else {
    XOE_ASSIGN(store, bootstrap::open_store(info, settings.start_timeout));
  }
  XOE_ASSIGN(auto options, options_of(info, env, address, settings, choice));
  const hierarchical::RankInfo mine{.host = info.host,
                                    .address = address,
                                    .pid = ::getpid(),
                                    .in_rank_order = choice.in_rank_order,
                                    .encrypts = choice.encrypt};
  // Keeps rank 0's server for as long as the store is used.
  const std::shared_ptr<bootstrap::OwnKeys> keys(
      new bootstrap::OwnKeys(std::move(store)),
      [served = std::shared_ptr<bootstrap::StoreServer>(std::move(server))](bootstrap::OwnKeys* last) { delete last; });
  XOE_ASSIGN(auto ranks, exchange_ranks(*keys, options.keys, topology, mine, settings.start_timeout));
  XOE_TRY(check_hosts(ranks, topology));
  XOE_TRY(kOrder.check(ranks));
  XOE_TRY(kEncryption.check(ranks));
  XOE_ASSIGN(options.secret, common_secret(*keys, options, topology.rank));
  std::string key = key_of(options.secret, info.group);
  XOE_ASSIGN(auto context, hierarchical::Context::join(std::move(ranks), topology.rank, keys, std::move(provider),
                                                       std::move(options)));
  XOE_ASSIGN(auto backend, hierarchical::HierarchicalBackend::make(std::move(context)));
  // No rank leaves the store before all have joined.
  XOE_TRY(
      backend->run({.kind = CollectiveKind::kBarrier, .options = {.name = "init", .timeout = settings.start_timeout}}));
  keys->remove_all();
  return Joined{
      .world = Communicator(std::move(backend)), .key = std::move(key), .address = address, .encrypts = choice.encrypt};
}

}  // namespace xoe
