#include "pool/cli/extra_gpus.h"

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "core/base/error.h"
#include "core/base/random_token.h"
#include "core/base/text.h"

namespace xoe::tools::pool {
namespace {

constexpr auto kLookEvery = std::chrono::milliseconds(250);
// While a rank is about to leave: someone waits for its GPU.
constexpr auto kHearEvery = std::chrono::milliseconds(20);
// After a refusal, or a rank that could not be started.
constexpr auto kAskAgain = std::chrono::seconds(60);
// For a rank whose lease was ended by another to leave well.
constexpr double kAfterTheEnd = 5;  // seconds
// Of the launcher, between SIGTERM and SIGKILL, and a second for the rest. A rank that does not leave is ended so long
// before the pool ends its lease; where that is soon, in the middle of the time that is left.
constexpr double kMargin = 6;  // seconds

double before_the_end(double seconds) { return seconds - std::min(kMargin, seconds / 2); }

// By the pool's clock.
double seconds_until(const Json& time, const Client& client) {
  return time.get<double>() - std::chrono::duration<double>(client.now().time_since_epoch()).count();
}

}  // namespace

ExtraGpus::ExtraGpus(Client& client, const Connection& connection, const LeaseReaper& reaper, LeaseOptions request,
                     int count, Fd control, Span grace, Say say)
    : client_(client),
      connection_(connection),
      reaper_(reaper),
      request_(std::move(request)),
      extras_(static_cast<std::size_t>(count)),
      control_(std::move(control)),
      grace_(grace),
      say_(std::move(say)) {}

std::vector<std::string> ExtraGpus::take_at_once() {
  std::vector<std::string> gpus;
  for (Extra& extra : extras_) {
    if (!ask(client_, extra)) break;
    if (extra.state != State::kJoining) continue;
    extra.state = State::kRank;
    gpus.push_back(extra.gpu);
  }
  return gpus;
}

bool ExtraGpus::ask(Client& client, Extra& extra) {
  const auto refused = [&](const std::string& why) { say_("no further GPU: " + why); };
  extra.again = Clock::now() + kAskAgain;
  if (extra.token.empty()) {
    const auto token = random_token();
    if (!token) {
      refused(token.error().message());
      return true;
    }
    extra.token = *token;
  }
  LeaseOptions request = request_;
  request.token = extra.token;
  const auto reply = request_lease(client, connection_, request, "/v1/leases");
  if (!reply || may_pass(*reply)) {
    refused(reply ? reply->message() : reply.error().message());
    return false;
  }
  extra.token.clear();
  const Json* const lease = reply->ok() ? &reply->body.at("lease") : nullptr;
  if (lease == nullptr || lease->at("state") == "ended") {
    refused(lease == nullptr ? reply->message() : lease->value("why", ""));
    return true;
  }
  extra.lease = id_of(*lease);
  reaper_.holds(extra.lease);
  extra.state = State::kWaiting;
  if (lease->at("state") != "open" || lease->value("closed", false)) return true;
  extra.gpu = lease->at("gpus").at(0).get<std::string>();
  extra.state = State::kJoining;
  return true;
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
    bool answers = true;
    if (extra.state == State::kReturning && Clock::now() >= extra.give_back_at) answers = give_back(extra);
    if (answers && extra.state == State::kNone && Clock::now() >= extra.again) {
      answers = ask(client_, extra);
      if (extra.state == State::kJoining) tell_launcher("join " + extra.gpu);
    }
    // Each further request would take its time, too.
    if (!answers) return look_later();
    if (extra.state != State::kNone && extra.state != State::kReturning)
      ids += fmt::format("{}{}", ids.empty() ? "" : ",", extra.lease);
  }
  if (ids.empty()) return;
  const auto reply = client_.get("/v1/leases?ids=" + ids);
  if (!reply || !reply->ok()) return look_later();  // nothing has changed until it is there again
  for (const Json& lease : reply->body.at("leases"))
    for (Extra& extra : extras_)
      if (extra.lease == id_of(lease)) update(extra, lease);
}

void ExtraGpus::update(Extra& extra, const Json& lease) {
  const std::string state = lease.at("state");
  if (state == "waiting" || extra.state == State::kLeaving) return;
  if (extra.state == State::kWaiting && lease.value("closed", false)) return;
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
    return leave(extra, by.is_null() ? grace : before_the_end(seconds_until(by, client_)),
                 fmt::format("lease {} is more important", asked->at("for").get<std::int64_t>()));
  }
  const Json* const expires = member_of(lease, "expires");
  if (const double left = expires == nullptr ? grace + 1 : seconds_until(*expires, client_); left <= grace)
    leave(extra, before_the_end(left), "its lease is about to end");
}

void ExtraGpus::leave(Extra& extra, double seconds, const std::string& why) {
  say_(fmt::format("{}: the rank with {} leaves at the next step", why, extra.gpu));
  extra.state = State::kLeaving;
  tell_launcher(fmt::format("leave {} {:.3f}", extra.gpu, std::max(0.0, seconds)));
}

bool ExtraGpus::give_back(Extra& extra) {
  const Status released = release(client_, connection_, extra.lease);
  if (!released && released.error().code() == Code::kUnavailable) {
    extra.give_back_at = Clock::now() + kLookLater;
    return false;
  }
  if (released) {
    reaper_.gave_back(extra.lease);
  } else {
    say_(released.error().message());
  }
  extra = {.again = extra.again};
  return true;
}

void ExtraGpus::give_back_all(Client& patient) {
  for (Extra& extra : extras_) {
    // The reply to the last request for it may have been lost.
    if (extra.state == State::kNone && !extra.token.empty()) ask(patient, extra);
    if (extra.state == State::kNone) continue;
    if (const Status released = release(patient, connection_, extra.lease))
      reaper_.gave_back(extra.lease);
    else
      say_(released.error().message());
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
