#include "launch/output/panel.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "core/base/error.h"
#include "core/base/text.h"
#include "core/command_line/terminal.h"

namespace xoe::launch {
namespace {

using bootstrap::RankFacts;
using bootstrap::WaitKind;

constexpr auto kFirst = std::chrono::seconds(1);  // many jobs are over by then
constexpr auto kEvery = std::chrono::milliseconds(500);
constexpr auto kHistory = std::chrono::seconds(60);
constexpr auto kWindow = std::chrono::seconds(5);    // of shares, and of rates unless steps take longer
constexpr auto kLongWait = std::chrono::seconds(1);  // is told by itself, with its cause
constexpr double kShare = 0.1;                       // waits of less are not told
constexpr std::uint64_t kSteps = 5;                  // for a rate
constexpr std::size_t kLeastRows = 4;                // a header, two ranks, and how many more there are
constexpr std::size_t kRateColumns = 13;
constexpr std::size_t kStateColumns = 22;
constexpr std::size_t kNamedRanks = 3;
constexpr std::string_view kDim = "\x1b[2m";
constexpr std::string_view kYellow = "\x1b[33m";
constexpr std::string_view kPlain = "\x1b[0m";

double seconds_of(std::chrono::nanoseconds time) { return std::chrono::duration<double>(time).count(); }

// "90 s", "5 min 20 s", "2 h 13 min"
std::string human_wait(std::chrono::nanoseconds time) {
  const auto seconds = std::chrono::floor<std::chrono::seconds>(time).count();
  if (seconds < 120) return fmt::format("{} s", seconds);
  if (seconds < 7200) return fmt::format("{} min {} s", seconds / 60, seconds % 60);
  return fmt::format("{} h {} min", seconds / 3600, seconds / 60 % 60);
}

// "12.3 steps/s", "4.1 s/step"
std::string rate_text(double per_second, std::string_view noun) {
  if (!(per_second > 0)) return {};
  if (per_second < 1) return fmt::format("{:.3g} s/{}", 1 / per_second, noun);
  if (per_second >= 100) return fmt::format("{:.0f} {}s/s", per_second, noun);
  return fmt::format("{:.3g} {}s/s", per_second, noun);
}

std::string rank_names(const std::vector<int>& ranks) {
  if (ranks.size() == 1) return fmt::format("rank {}", ranks[0]);
  if (ranks.size() <= kNamedRanks) return fmt::format("ranks {}", fmt::join(ranks, ", "));
  return fmt::format("{}{} ranks", ranks.size(), ranks.size() == bootstrap::kMostMissing ? " or more" : "");
}

bool waits_long(const RankFacts& facts) { return facts.wait != WaitKind::kNone && facts.waited >= kLongWait; }

std::string padded(std::string text, std::size_t columns) {
  if (text.size() < columns) text.resize(columns, ' ');
  return text;
}

}  // namespace

Panel::Panel(std::vector<std::string> tags, Clock::time_point began)
    : began_(began), next_draw_(began + kFirst), seen_(began) {
  for (std::string& tag : tags) ranks_.push_back({.tag = std::move(tag)});
}

void Panel::observe(std::span<const RankSample> samples, Clock::time_point now) {
  next_draw_ = now + kEvery;
  seen_ = now;
  for (std::size_t i = 0; i < std::min(samples.size(), ranks_.size()); ++i) {
    Rank& rank = ranks_[i];
    const auto& [at, facts] = samples[i];
    rank.now = facts;
    if (!rank.history.empty() && at <= rank.history.back().at) continue;  // from another host, not heard of since
    rank.history.push_back(
        {.at = at, .steps = facts.steps, .operations = facts.operations, .peers = facts.peers, .data = facts.data});
    while (rank.history.front().at < at - kHistory) rank.history.pop_front();
  }
}

// Over some seconds, or over as many steps as tell it well where they are slow.
std::string Panel::rate_of(const Rank& rank) {
  if (rank.history.size() < 2) return {};
  const Point& last = rank.history.back();
  const bool counts_steps = last.steps > 0;
  const auto count = [&](const Point& point) { return counts_steps ? point.steps : point.operations; };
  auto from = rank.history.rbegin();
  while (std::next(from) != rank.history.rend() &&
         (last.at - from->at < kWindow || count(last) - count(*from) < kSteps))
    ++from;
  const double rate = static_cast<double>(count(last) - count(*from)) / seconds_of(last.at - from->at);
  return rate_text(rate, counts_steps ? "step" : "op");
}

// How many ranks wait for this one now.
int Panel::waiting_for(int rank) const {
  const auto waits = [rank](const Rank& other) {
    return other.ended.empty() && waits_long(other.now) &&
           std::ranges::find(other.now.missing, rank) != other.now.missing.end();
  };
  return static_cast<int>(std::ranges::count_if(ranks_, waits));
}

std::string Panel::wait_of(const Rank& rank) {
  const RankFacts& facts = rank.now;
  if (waits_long(facts)) {
    const std::string waits = "waits " + human_wait(facts.waited);
    if (facts.wait == WaitKind::kData) return waits + " for data";
    if (facts.tensor.empty()) return waits + " for peers";
    if (facts.missing.empty()) return fmt::format("{} for peers: {}", waits, facts.tensor);
    return fmt::format("{} for {}: {}", waits, rank_names(facts.missing), facts.tensor);
  }
  const Point& last = rank.history.back();
  auto from = rank.history.rbegin();
  while (std::next(from) != rank.history.rend() && last.at - from->at < kWindow) ++from;
  const double time = seconds_of(last.at - from->at);
  if (!(time > 0)) return {};
  const double peers = seconds_of(last.peers - from->peers) / time;
  const double data = seconds_of(last.data - from->data) / time;
  if (std::max(peers, data) < kShare) return "computing";
  return fmt::format("waits for {} {:.0f} %", peers >= data ? "peers" : "data",
                     100 * std::min(1.0, std::max(peers, data)));
}

std::string Panel::state_of(std::size_t index) const {
  const Rank& rank = ranks_[index];
  if (!rank.ended.empty()) return rank.ended;
  if (!rank.now.joined || rank.history.empty()) return "starting";
  const int others = waiting_for(static_cast<int>(index));
  if (others == 0) return wait_of(rank);
  return fmt::format("{}; {} {} for it", wait_of(rank), counted(others, "rank"), others == 1 ? "waits" : "wait");
}

// Those that others wait for, then by rank.
std::vector<std::size_t> Panel::chosen(std::size_t most) const {
  std::vector<std::size_t> order(ranks_.size());
  std::iota(order.begin(), order.end(), 0);
  if (order.size() <= most) return order;
  std::stable_partition(order.begin(), order.end(),
                        [&](std::size_t rank) { return waiting_for(static_cast<int>(rank)) > 0; });
  order.resize(most);
  std::ranges::sort(order);
  return order;
}

std::string Panel::header(const Look& look) const {
  std::string text =
      fmt::format("-- {}, {} ", counted(static_cast<std::int64_t>(ranks_.size()), "rank"), human_wait(seen_ - began_));
  if (text.size() < look.width) text.resize(look.width, '-');
  return look.color ? fmt::format("{}{}{}", kDim, text, kPlain) : text;
}

std::vector<std::string> Panel::lines(std::span<const std::string> last_lines, const Look& look) const {
  const std::size_t most = look.height / 3;
  const auto joined = [](const Rank& rank) { return rank.now.joined; };
  if (most < kLeastRows || std::ranges::none_of(ranks_, joined)) return {};
  const std::size_t rows = ranks_.size() < most ? ranks_.size() : most - 2;
  std::vector<std::string> lines = {header(look)};
  for (const std::size_t index : chosen(rows)) {
    const Rank& rank = ranks_[index];
    std::string state = padded(state_of(index), kStateColumns);
    if (look.color && rank.ended.empty() && waits_long(rank.now)) state = fmt::format("{}{}{}", kYellow, state, kPlain);
    lines.push_back(fmt::format("{}{} {}  {}", rank.tag, padded(rank.ended.empty() ? rate_of(rank) : "", kRateColumns),
                                state, last_lines[index]));
  }
  if (rows < ranks_.size())
    lines.push_back(fmt::format("and {}", counted(static_cast<std::int64_t>(ranks_.size() - rows), "more rank")));
  return lines;
}

}  // namespace xoe::launch
