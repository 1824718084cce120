#include "launch/agents/host_arrival.h"

#include <utility>

namespace xoe::launch {

using remote::Frame;

HostArrival::HostArrival(HostShare share, std::unique_ptr<remote::AgentConnection> agent, std::string version,
                         std::string job, const remote::ConnectOptions& connect)
    : share_(std::move(share)),
      agent_(std::move(agent)),
      version_(std::move(version)),
      job_(std::move(job)),
      connect_(connect),
      deadline_(Clock::now() + connect.start_timeout) {}

void HostArrival::add_to(std::vector<pollfd>& polled) { agent_->add_to(polled); }

void HostArrival::pump(const std::vector<pollfd>& polled, Clock::time_point now) {
  agent_->pump(polled);
  while (state_ == State::kConnecting || state_ == State::kPreparing) {
    const auto frame = agent_->frames().next();
    if (!frame) agent_->frames().close();  // not an agent
    if (!frame || !*frame) break;
    on_frame(**frame);
  }
  if (state_ == State::kReady || state_ == State::kFailed) return;
  if (agent_->ended(now))
    return fail(state_ == State::kConnecting ? remote::explain_no_agent(*agent_, connect_)
                                             : remote::explain_cut(*agent_, connect_));
  if (now >= deadline_) return fail(remote::explain_no_answer(*agent_, connect_, state_ == State::kPreparing));
  if (agent_->frames().reader().greeted())
    agent_->frames().keep_alive(now, remote::keepalive_interval(connect_.host_timeout));
  agent_->write();
}

void HostArrival::on_frame(const Frame& frame) {
  switch (frame.kind) {
    case Frame::Kind::kHello: return on_hello(frame.text);
    case Frame::Kind::kReady:
      if (state_ != State::kPreparing) return;
      agent_->frames().send({.kind = Frame::Kind::kStart});
      agent_->write();
      state_ = State::kReady;
      return;
    case Frame::Kind::kError: return fail(remote::explain_refusal(*agent_, frame.text, static_cast<int>(frame.value)));
    default: return;
  }
}

void HostArrival::on_hello(std::string_view text) {
  const auto hello = remote::decode_hello(text);
  if (!hello || hello->version != version_)
    return fail(
        remote::explain_version(*agent_, hello ? hello->version : std::string("of another kind"), version_, connect_));
  on_greeted();
}

void HostArrival::on_greeted() {
  agent_->frames().send({.kind = Frame::Kind::kPrepare, .text = job_});
  state_ = State::kPreparing;
}

void HostArrival::fail(remote::HostFailure failure) {
  failure_ = std::move(failure);
  state_ = State::kFailed;
  // One that joined by itself is told why, by its source.
  if (agent_->method() != remote::LaunchMethod::kJoined) agent_->kill();
}

void HostArrival::cancel() {
  state_ = State::kFailed;
  if (agent_) agent_->kill();
}

}  // namespace xoe::launch
