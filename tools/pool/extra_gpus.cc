#include "tools/pool/extra_gpus.h"

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "base/error.h"
#include "base/random_token.h"
#include "base/text.h"

namespace xoe::tools::pool {
namespace {

constexpr auto kLookEvery = std::chrono::milliseconds(250);
// While a rank is about to leave: someone waits for its GPU.
constexpr auto kHearEvery = std::chrono::milliseconds(20);
// After a refusal, or a rank that could not be started.
constexpr auto kAskAgain = std::chrono::seconds(60);
// For a rank whose lease was ended by another to leave well.
constexpr double kAfterTheEnd = 5;  // seconds
// Before the pool ends the lease by itself.
constexpr double kMargin = 2;  // seconds

double seconds_until(const Json& time) {
  return time.get<double>() - std::chrono::duration<double>(xoe::pool::system_now().time_since_epoch()).count();
}

}  // namespace

ExtraGpus::ExtraGpus(Client& client, const Connection& connection, const Keeper& keeper, LeaseOptions wishes, int count,
                     Fd control, Span grace, Say say)
    : client_(client),
      connection_(connection),
      keeper_(keeper),
      wishes_(std::move(wishes)),
      extras_(static_cast<std::size_t>(count)),
      control_(std::move(control)),
      grace_(grace),
      say_(std::move(say)) {}

std::vector<std::string> ExtraGpus::take_at_once() {
  std::vector<std::string> gpus;
  for (Extra& extra : extras_) {
    ask(extra);
    if (extra.state != State::kJoining) continue;
    extra.state = State::kRank;
    gpus.push_back(extra.gpu);
  }
  return gpus;
}

void ExtraGpus::ask(Extra& extra) {
  extra.again = Clock::now() + kAskAgain;
  if (extra.token.empty()) {
    const auto token = random_token();
    if (!token) return say_("no further GPU: " + token.error().message());
    extra.token = *token;
  }
  LeaseOptions wishes = wishes_;
  wishes.token = extra.token;
  const auto reply = ask_lease(client_, connection_, wishes, "/v1/leases");
  if (!reply) return say_("no further GPU: " + reply.error().message());
  extra.token.clear();
  if (!reply->ok()) return say_("no further GPU: " + reply->message());
  const Json& lease = reply->body.at("lease");
  if (lease.at("state") == "ended") return say_("no further GPU: " + lease.value("why", ""));
  extra.lease = lease.at("id").get<std::int64_t>();
  keeper_.holds(extra.lease);
  extra.state = State::kWaiting;
  if (lease.at("state") != "open") return;
  extra.gpu = lease.at("gpus").at(0).get<std::string>();
  extra.state = State::kJoining;
}

ExtraGpus::Clock::time_point ExtraGpus::turn() {
  hear();
  const auto now = Clock::now();
  if (now >= next_look_) {
    next_look_ = now + kLookEvery;
    look();
  }
  const bool soon = std::ranges::any_of(extras_, [](const Extra& extra) { return extra.state == State::kLeaving; });
  return soon ? now + kHearEvery : next_look_;
}

void ExtraGpus::look() {
  std::string ids;
  for (Extra& extra : extras_) {
    if (extra.state == State::kReturning) give_back(extra);
    if (extra.state == State::kNone && Clock::now() >= extra.again) {
      ask(extra);
      if (extra.state == State::kJoining) tell_launcher("join " + extra.gpu);
    }
    if (extra.state != State::kNone && extra.state != State::kReturning)
      ids += fmt::format("{}{}", ids.empty() ? "" : ",", extra.lease);
  }
  if (ids.empty()) return;
  const auto reply = client_.get("/v1/leases?ids=" + ids);
  if (!reply || !reply->ok()) return;  // it may be there again soon; nothing has changed until then
  for (const Json& lease : reply->body.at("leases"))
    for (Extra& extra : extras_)
      if (extra.lease == lease.at("id").get<std::int64_t>()) update(extra, lease);
}

void ExtraGpus::update(Extra& extra, const Json& lease) {
  const std::string state = lease.at("state");
  if (state == "waiting" || extra.state == State::kLeaving) return;
  if (state == "ended") {
    const std::string why = lease.value("why", "its lease has ended");
    if (extra.state == State::kWaiting) {
      say_("no further GPU: " + why);
      extra.state = State::kReturning;
      return;
    }
    extra.taken_back = true;
    return leave(extra, kAfterTheEnd, why);
  }
  if (extra.state == State::kWaiting) {
    extra.gpu = lease.at("gpus").at(0).get<std::string>();
    extra.state = State::kJoining;
    say_(fmt::format("{} is free: a rank is started with it (lease {})", extra.gpu, extra.lease));
    tell_launcher("join " + extra.gpu);
  }
  const double grace = std::chrono::duration<double>(grace_).count();
  if (const auto asked = lease.find("give_way"); asked != lease.end()) {
    const Json& by = asked->at("by");
    return leave(extra, by.is_null() ? grace : seconds_until(by) - kMargin,
                 fmt::format("lease {} is more important", asked->at("for").get<std::int64_t>()));
  }
  if (const double left = seconds_until(lease.at("expires")); left <= grace)
    leave(extra, left - kMargin, "its lease is about to end");
}

void ExtraGpus::leave(Extra& extra, double seconds, const std::string& why) {
  say_(fmt::format("{}: the rank with {} leaves at the next step", why, extra.gpu));
  extra.state = State::kLeaving;
  tell_launcher(fmt::format("leave {} {:.3f}", extra.gpu, std::max(0.0, seconds)));
}

void ExtraGpus::give_back(Extra& extra) {
  const auto token = lease_token(connection_, extra.lease);
  if (token) {
    const auto reply = client_.post(fmt::format("/v1/leases/{}/release", extra.lease), {{"token", *token}});
    if (!reply) return;  // tried again in the next look
  }
  forget_lease(connection_, extra.lease);
  keeper_.gave_back(extra.lease);
  extra = {.again = extra.again};
}

void ExtraGpus::give_back_all(Client& patient) {
  for (const Extra& extra : extras_) {
    if (extra.state == State::kNone) continue;
    release(patient, connection_, extra.lease);
    keeper_.gave_back(extra.lease);
  }
  extras_.clear();
}

void ExtraGpus::hear() {
  std::array<char, 4096> part;
  for (;;) {
    const auto count = ::recv(control_.get(), part.data(), part.size(), MSG_DONTWAIT);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) break;  // nothing now; or the launcher ends, which its exit tells
    heard_.append(part.data(), static_cast<std::size_t>(count));
  }
  for (auto end = heard_.find('\n'); end != std::string::npos; end = heard_.find('\n')) {
    on_line(heard_.substr(0, end));
    heard_.erase(0, end + 1);
  }
}

void ExtraGpus::on_line(const std::string& line) {
  const auto words = split_text(line, ' ');
  const auto extra = std::ranges::find_if(
      extras_, [&](const Extra& one) { return words.size() > 1 && one.gpu == words[1] && one.state != State::kNone; });
  if (extra == extras_.end()) return;
  if (words[0] == "joined") {
    if (extra->state == State::kJoining) extra->state = State::kRank;
    return;
  }
  // What cannot leave, because there is no such rank any more, has left.
  extra->again = Clock::now();
  if (words[0] != "left" || extra->taken_back) extra->again += kAskAgain;
  if (words[0] != "left") {
    say_(fmt::format("no rank with {}: {}", extra->gpu, line));
  }
  extra->state = State::kReturning;
  give_back(*extra);
}

void ExtraGpus::tell_launcher(const std::string& line) const {
  const std::string whole = line + '\n';
  ::send(control_.get(), whole.data(), whole.size(), MSG_NOSIGNAL);
}

}  // namespace xoe::tools::pool
