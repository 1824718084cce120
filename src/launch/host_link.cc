#include "launch/host_link.h"

#include <algorithm>
#include <utility>

namespace xoe::launch {
namespace {

constexpr std::size_t kSaidBytes = 4096;
// Between the end of the pipe and that of the shell.
constexpr auto kShellPatience = std::chrono::seconds(1);
constexpr auto kPartPatience = std::chrono::milliseconds(1500);

}  // namespace

void HostLink::add_words(std::string_view words) {
  said_.append(words);
  if (said_.size() > kSaidBytes) said_.erase(0, said_.size() - kSaidBytes);
}

bool HostLink::over(Clock::time_point now) {
  if (!pipe_.closed()) return false;
  if (!closed_at_) closed_at_ = now;
  read_last_words();
  return status() || now - *closed_at_ >= kShellPatience;
}

std::chrono::nanoseconds HostLink::silence(Clock::time_point now) const {
  return (relay_ == nullptr ? now : relay_->pipe().heard()) - pipe_.heard();
}

bool pass_on(const HostLinks& links, const HostLink& relay, const AgentFrame& frame) {
  using Kind = AgentFrame::Kind;
  if (frame.kind != Kind::kShellOutput && frame.kind != Kind::kShellWords && frame.kind != Kind::kShellEnded)
    return false;
  if (frame.rank >= 0 && std::cmp_less(frame.rank, links.size()))
    if (HostLink& link = *links[static_cast<std::size_t>(frame.rank)]; link.relay() == &relay) link.take(frame);
  return true;
}

bool is_behind(const HostLink& link, const HostLink& relay) {
  for (const HostLink* at = link.relay(); at != nullptr; at = at->relay())
    if (at == &relay) return true;
  return false;
}

// Agents hang up on the hosts behind them when they are hung up on.
void part_from(HostLinks& links) {
  const auto deadline = HostLink::Clock::now() + kPartPatience;
  for (auto& link : links) link->hang_up();
  std::vector<pollfd> polled;
  while (HostLink::Clock::now() < deadline) {
    polled.clear();
    for (auto& link : links) link->add_to(polled);
    if (std::ranges::all_of(links, [](const auto& link) { return link->relay() != nullptr || link->status(); })) return;
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - HostLink::Clock::now()).count();
    ::poll(polled.data(), polled.size(), static_cast<int>(std::max<std::int64_t>(0, left)));
    for (auto& link : links) link->pump(polled);
  }
  for (auto& link : links) link->kill();
}

}  // namespace xoe::launch
