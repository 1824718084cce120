#include "launch/agents/elastic_hosts.h"

#include <algorithm>
#include <utility>

#include "core/base/error.h"
#include "core/base/text.h"
#include "core/bootstrap/world_page.h"

namespace xoe::launch {
namespace {

constexpr auto kSourceTurn = std::chrono::milliseconds(200);

}  // namespace

ElasticHosts::ElasticHosts(const RunOptions& options, const HostsPlan& plan, const remote::Inherited& inherited,
                           std::string store, std::unique_ptr<HostSource> source)
    : options_(options),
      plan_(plan),
      inherited_(inherited),
      store_(std::move(store)),
      source_(std::move(source)),
      roster_(options.elastic.cooldown, options.elastic.longest_cooldown),
      slots_(plan.slots) {
  std::vector<remote::Host> hosts;
  for (const HostShare& share : plan.shares) {
    places_.emplace(share.host.name, share);
    hosts.push_back(share.host);
  }
  roster_.name(hosts);
  static_cast<void>(roster_.take_wanted(Clock::now()));
  for (const remote::Host& host : hosts) roster_.note_there(host.name);
  if (options.elastic.changes_hosts()) discovery_.emplace(options.elastic, inherited);
}

std::string ElasticHosts::leave_out(const std::string& host, Clock::time_point now) {
  const auto pause = roster_.note_failed(host, now);
  if (source_) return fmt::format("host {} is left out until it joins again", host);
  // Without a script, and without restarts, what is lost stays lost.
  if (!discovery_ && options_.restarts == 0) {
    roster_.strike(host);
    return fmt::format("host {} is left out from now on", host);
  }
  return fmt::format("host {} is left out for {}", host, human_seconds(pause));
}

void ElasticHosts::stop() {
  if (std::exchange(stopped_, true)) return;
  for (HostArrival& arrival : arrivals_) arrival.cancel();
  arrivals_.clear();
  discovery_.reset();
  source_.reset();
}

void ElasticHosts::add_to(std::vector<pollfd>& polled) {
  if (discovery_) discovery_->add_to(polled);
  if (source_) source_->add_to(polled);
  for (HostArrival& arrival : arrivals_) arrival.add_to(polled);
}

void ElasticHosts::pump(const std::vector<pollfd>& polled, Clock::time_point now) {
  if (stopped_) return;
  for (HostArrival& arrival : arrivals_) arrival.pump(polled, now);
  for (auto arrival = arrivals_.begin(); arrival != arrivals_.end();) {
    if (arrival->state() != HostArrival::State::kFailed) {
      ++arrival;
      continue;
    }
    const auto& lines = arrival->failure().lines;
    news_.insert(news_.end(), lines.begin(), lines.end());
    news_.push_back(leave_out(arrival->share().host.name, now));
    if (source_ && arrival->share().method == remote::LaunchMethod::kJoined)
      source_->refuse(*arrival->take_agent(), arrival->failure());
    arrival = arrivals_.erase(arrival);
  }
  if (discovery_) {
    discovery_->pump(now);
    if (const auto hosts = discovery_->take()) roster_.name(*hosts);
    if (auto problem = discovery_->take_problem()) news_.push_back(std::move(*problem));
  }
  if (source_)
    for (JoinedHost& joined : source_->pump(polled)) greet(std::move(joined));
  // Those that join by themselves come when they come.
  for (const remote::Host& host : roster_.take_wanted(now))
    if (const auto known = places_.find(host.name);
        known == places_.end() || known->second.method != remote::LaunchMethod::kJoined)
      invite(host, now);
}

void ElasticHosts::greet(JoinedHost joined) {
  auto share = share_of({.name = joined.agent->host(), .slots = joined.hello.ranks});
  if (!share) return source_->refuse(*joined.agent, {.lines = {news_.back()}});
  share->method = remote::LaunchMethod::kJoined;
  places_[share->host.name].method = share->method;
  roster_.add(share->host);
  std::string job = encode(job_for(plan_, *share, options_, store_, 0));
  arrivals_.emplace_back(std::move(*share), std::move(joined.agent), plan_.version, std::move(job),
                         options_.where.connect);
  arrivals_.back().on_greeted();
}

std::optional<ElasticHosts::Clock::time_point> ElasticHosts::next_turn() const {
  if (stopped_) return std::nullopt;
  auto next = roster_.next_turn();
  const auto earlier = [&next](Clock::time_point time) { next = std::min(next.value_or(time), time); };
  if (discovery_) earlier(discovery_->next_turn());
  if (source_) earlier(Clock::now() + kSourceTurn);
  for (const HostArrival& arrival : arrivals_) earlier(arrival.deadline());
  // The end of a shell may come after that of its pipes.
  if (!arrivals_.empty()) earlier(Clock::now() + remote::keepalive_interval(options_.where.connect.host_timeout) / 2);
  return next;
}

std::map<std::string, HostShare>::iterator ElasticHosts::place_of_past_host() {
  return std::ranges::find_if(places_, [this](const auto& one) { return roster_.is_past(one.first); });
}

// A host that was there before has its slots again, a new one those of one that will not come again. Only what is left
// counts against the limit, so that machines may be replaced for as long as the job runs.
std::optional<HostShare> ElasticHosts::share_of(const remote::Host& host) {
  auto found = places_.find(host.name);
  if (const auto past = found == places_.end() ? place_of_past_host() : places_.end(); past != places_.end()) {
    auto node = places_.extract(past);
    node.key() = host.name;
    found = places_.insert(std::move(node)).position;
  }
  const int had = found == places_.end() ? 0 : static_cast<int>(found->second.ranks.size());
  if (slots_ + host.slots - had > bootstrap::kMostSlots) {
    news_.push_back(fmt::format("host {} is left out: the job's hosts have {}, and may have {}", host.name,
                                counted(slots_, "slot"), bootstrap::kMostSlots));
    return std::nullopt;
  }
  HostShare wanted = new_share(plan_, host, options_, inherited_.env, slots_);
  if (had > 0) {
    auto& ranks = found->second.ranks;
    for (int i = 0; i + had < host.slots; ++i) ranks.push_back({.rank = slots_ + i});
    wanted.ranks = ranks;
    wanted.ranks.resize(static_cast<std::size_t>(host.slots));
  } else {
    found = places_.insert_or_assign(host.name, wanted).first;
  }
  slots_ += std::max(host.slots - had, 0);
  return wanted;
}

void ElasticHosts::invite(const remote::Host& host, Clock::time_point now) {
  auto share = share_of(host);
  if (!share) {
    roster_.note_failed(host.name, now);
    return;
  }
  auto agent = remote::connect_agent(host.name, share->method, options_.where.connect, inherited_);
  if (!agent) {
    news_.push_back(agent.error().message());
    news_.push_back(leave_out(host.name, now));
    return;
  }
  std::string job = encode(job_for(plan_, *share, options_, store_, 0));
  arrivals_.emplace_back(std::move(*share), std::move(*agent), plan_.version, std::move(job), options_.where.connect);
}

std::vector<ElasticHosts::Came> ElasticHosts::take_ready() {
  std::vector<Came> ready;
  for (auto arrival = arrivals_.begin(); arrival != arrivals_.end();) {
    if (arrival->state() != HostArrival::State::kReady) {
      ++arrival;
      continue;
    }
    roster_.note_there(arrival->share().host.name);
    ready.push_back({.share = arrival->share(), .agent = arrival->take_agent()});
    arrival = arrivals_.erase(arrival);
  }
  return ready;
}

std::vector<std::string> ElasticHosts::take_unwanted() {
  return stopped_ ? std::vector<std::string>() : roster_.take_unwanted();
}

}  // namespace xoe::launch
