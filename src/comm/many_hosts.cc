#include "comm/many_hosts.h"

#include <unistd.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "backend/hierarchical/hierarchical_backend.h"
#include "backend/net/choose_mpi.h"
#include "backend/net/plugin.h"
#include "base/error.h"
#include "base/text.h"
#include "bootstrap/own_address.h"
#include "bootstrap/socket_address.h"
#include "bootstrap/store.h"
#include "bootstrap/store_client.h"
#include "bootstrap/user_key.h"

namespace xoe {
namespace {

// The first of the nets that loads; an error has what each of them said.
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
  return failure(Code::kUnsupported, "no engine between hosts: {}", problems);
}

// A store of a launcher that has none: rank 0 serves it, and the engine's own launcher brings all to it.
Result<std::unique_ptr<bootstrap::Store>> meet_through(net::Provider& provider, const bootstrap::LaunchInfo& info,
                                                       const std::string& address, std::chrono::nanoseconds patience,
                                                       std::unique_ptr<bootstrap::StoreServer>& server) {
  XOE_ASSIGN(const net::Exchange exchange, provider.bootstrap());
  std::string mine, secret;
  if (info.topology.rank == 0) {
    XOE_ASSIGN(secret, bootstrap::random_token());
    const bool v6 = address.find(':') != std::string::npos;
    XOE_ASSIGN(server, bootstrap::serve_store(
                           v6 ? fmt::format("tcp:[{}]:0", address) : fmt::format("tcp:{}:0", address), secret));
    mine = server->address() + " " + secret;
  }
  XOE_ASSIGN(const auto all, exchange(mine));
  const auto parts = split_text(all.front(), ' ');
  if (parts.size() != 2) return failure(Code::kInternal, "rank 0 said '{}' where its store is", all.front());
  XOE_ASSIGN(const auto at, bootstrap::SocketAddress::parse(parts[0]));
  return bootstrap::connect_store(at, parts[1], /*wait=*/true, patience);
}

// Every rank's "host address pid", which rank 0 gathers for all.
Result<std::vector<hierarchical::RankFacts>> exchange_facts(bootstrap::Store& store, const std::string& keys,
                                                            const Topology& topology,
                                                            const hierarchical::RankFacts& mine,
                                                            std::chrono::nanoseconds patience) {
  const auto key = [&](int rank) { return fmt::format("{}fact/{}", keys, rank); };
  XOE_TRY(store.set(key(topology.rank), fmt::format("{}\t{}\t{}", mine.host, mine.address, mine.pid)));
  if (topology.rank == 0) {
    std::vector<std::string> all_keys;
    for (int rank = 0; rank < topology.size; ++rank) all_keys.push_back(key(rank));
    auto all = store.get_all(all_keys, patience);
    if (!all) return failure(all.error().code(), "not all {} ranks appeared: {}", topology.size, all.error().message());
    XOE_TRY(store.set(keys + "facts", fmt::format("{}", fmt::join(*all, "\n"))));
  }
  XOE_ASSIGN(const std::string table, store.get(keys + "facts", patience));
  std::vector<hierarchical::RankFacts> facts;
  for (const std::string& line : split_text(table, '\n')) {
    const auto fields = split_text(line, '\t');
    const auto pid = fields.size() == 3 ? parse_integer(fields[2]) : std::nullopt;
    if (!pid) return failure(Code::kInternal, "a rank described itself as '{}'", line);
    facts.push_back({.host = fields[0], .address = fields[1], .pid = static_cast<int>(*pid)});
  }
  if (facts.size() != static_cast<std::size_t>(topology.size))
    return failure(Code::kInternal, "{} descriptions of {} ranks", facts.size(), topology.size);
  return facts;
}

// The launcher's numbers must fit to where the ranks say they are.
Status check_hosts(const std::vector<hierarchical::RankFacts>& facts, const Topology& topology) {
  const auto& own = facts[static_cast<std::size_t>(topology.rank)];
  const auto here = std::ranges::count(facts, own.host, &hierarchical::RankFacts::host);
  if (here == topology.local_size) return {};
  return failure(
      Code::kInvalidArgument,
      "rank {}: its launcher says that {} ranks run on this host, but {} say that they run on {}; give hosts "
      "different names (XOE_HOSTNAME)",
      topology.rank, topology.local_size, here, own.host);
}

// For the connections between hosts: the launcher's, or one that rank 0 chooses.
Result<std::string> common_secret(bootstrap::Store& store, const hierarchical::WorldOptions& options, int rank) {
  if (!options.secret.empty()) return options.secret;
  if (rank == 0) {
    XOE_ASSIGN(const std::string token, bootstrap::random_token());
    XOE_TRY(store.set(options.keys + "secret", token));
  }
  return store.get(options.keys + "secret", options.start_timeout);
}

std::string store_host(const std::string& store) {
  const auto at = bootstrap::SocketAddress::resolve(store);
  return at && at->remote() ? at->host() : "";
}

// Keeps rank 0's server as long as the store is used.
class KeptStore final : public bootstrap::Store {
 public:
  KeptStore(std::unique_ptr<bootstrap::StoreServer> server, std::unique_ptr<bootstrap::Store> store)
      : server_(std::move(server)), store_(std::move(store)) {}
  Status set(std::string_view key, std::string_view value) override { return store_->set(key, value); }
  Result<std::string> get(std::string_view key, std::chrono::nanoseconds timeout) override {
    return store_->get(key, timeout);
  }
  Result<std::vector<std::string>> get_all(std::span<const std::string> keys,
                                           std::chrono::nanoseconds timeout) override {
    return store_->get_all(keys, timeout);
  }

 private:
  std::unique_ptr<bootstrap::StoreServer> server_;
  std::unique_ptr<bootstrap::Store> store_;
};

}  // namespace

Result<std::unique_ptr<Backend>> join_many_hosts(bootstrap::LaunchInfo info, const Env& env,
                                                 const JoinSettings& settings, const BackendChoice& choice) {
  const Topology& topology = info.topology;
  const std::string interfaces = env.text("XOE_INTERFACE").value_or("");
  XOE_ASSIGN(const std::string address, bootstrap::own_address(interfaces, store_host(info.store)));
  XOE_ASSIGN(
      auto provider,
      open_net(choice.nets, {.address = address, .interfaces = interfaces, .local_rank = topology.local_rank}, env));
  std::unique_ptr<bootstrap::StoreServer> server;
  std::unique_ptr<bootstrap::Store> store;
  const bool several = topology.size != topology.local_size;
  if (several && info.secret.empty() && !info.meeting.empty()) {
    XOE_ASSIGN(info.secret, bootstrap::job_secret(env, info.job));
  }
  if (several && info.store.empty() && info.meeting.empty()) {
    XOE_ASSIGN(store, meet_through(*provider, info, address, settings.patience, server));
  } else {
    XOE_ASSIGN(store, bootstrap::open_store(info, settings.patience));
  }
  hierarchical::WorldOptions options{.keys = fmt::format("{}/", info.group),
                                     .secret = info.secret,
                                     .address = address,
                                     .start_timeout = settings.patience,
                                     .timeout = settings.timeout,
                                     .arena_bytes = settings.arena_bytes,
                                     .flat = choice.flat};
  XOE_ASSIGN(const auto silence, env.seconds("XOE_HOST_TIMEOUT"));
  if (silence)
    options.silence = std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::duration<double>(*silence));
  const hierarchical::RankFacts mine{.host = info.host, .address = address, .pid = ::getpid()};
  XOE_ASSIGN(const auto facts, exchange_facts(*store, options.keys, topology, mine, settings.patience));
  XOE_TRY(check_hosts(facts, topology));
  XOE_ASSIGN(options.secret, common_secret(*store, options, topology.rank));
  XOE_ASSIGN(auto world, hierarchical::HostWorld::join(facts, topology.rank,
                                                       std::make_shared<KeptStore>(std::move(server), std::move(store)),
                                                       std::move(provider), std::move(options)));
  XOE_ASSIGN(auto backend, hierarchical::HierarchicalBackend::make(std::move(world)));
  // Nobody leaves the store before all are here.
  XOE_TRY(backend->run({.kind = CollectiveKind::kBarrier, .options = {.name = "init", .timeout = settings.patience}}));
  return backend;
}

}  // namespace xoe
