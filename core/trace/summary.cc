#include "core/trace/summary.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <tuple>
#include <utility>

#include "core/base/error.h"
#include "core/trace/names.h"

namespace xoe::trace {
namespace {

using nlohmann::json;
using Stretches = std::vector<Stretch>;

std::string text_at(const json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

const json& args_of(const json& event) {
  static const json none = json::object();
  const auto found = event.find("args");
  return found != event.end() && found->is_object() ? *found : none;
}

struct RankEvents {
  std::string name;
  std::string host;
  std::map<std::int64_t, std::string> lanes;
  std::map<std::int64_t, Stretches> bars;        // by lane
  std::map<std::string, Stretches> spans;        // by category
  std::map<std::int64_t, Stretches> waited_for;  // by late rank
  Stretch whole;
  bool any = false;

  void extend(std::int64_t start, std::int64_t stop) {
    whole = any ? Stretch{std::min(whole.start_ns, start), std::max(whole.stop_ns, stop)} : Stretch{start, stop};
    any = true;
  }
};

// Stretches of one rank, not joined.
struct Activities {
  Stretches compute, communication, input, waiting;

  void add(std::string_view lane, const Stretches& bars) {
    const auto append = [&bars](Stretches& to) { to.insert(to.end(), bars.begin(), bars.end()); };
    if (lane == trace::kComputeLane) append(compute);
    if (trace::is_communication(lane)) append(communication);
    if (trace::is_input(lane)) append(input);
    if (trace::is_waiting(lane)) append(waiting);
  }
};

TimeShares shares_of(const Activities& joined_ones, std::int64_t wall_ns) {
  TimeShares shares;
  Stretches counted;
  const auto count = [&counted](const Stretches& activity) {
    const Stretches more = subtract(activity, counted);
    counted.insert(counted.end(), more.begin(), more.end());
    counted = joined(std::move(counted));
    return total_ns(more);
  };
  shares.compute_ns = count(joined_ones.compute);
  shares.input_ns = count(joined_ones.input);
  shares.communication_ns = count(joined_ones.communication);
  shares.waiting_ns = count(joined_ones.waiting);
  shares.rest_ns = wall_ns - total_ns(counted);
  return shares;
}

struct TensorEvents {
  Stretches waits;
  std::int64_t longest_ns = -1;
  std::int64_t slowest_rank = 0;
};

struct OpenSpan {
  std::int64_t start_ns;
  std::string name;
  std::string note;
};

class EventCollector {
 public:
  Status take(const TraceEvent& event) {
    const json& fields = *event.fields;
    if (event.phase == 'M') {
      describe(event, fields);
      return {};
    }
    ++events_;
    RankEvents& rank = ranks_[event.pid];
    rank.extend(event.start_ns, event.start_ns + event.length_ns);
    switch (event.phase) {
      case 'X': rank.bars[event.tid].push_back({event.start_ns, event.start_ns + event.length_ns}); break;
      case 'b':
        open_[key_of(event, fields)] = {event.start_ns, text_at(fields, "name"),
                                        text_at(args_of(fields), trace::kNote.data())};
        break;
      case 'e': close(event, fields, rank); break;
      case 'i':
        if (text_at(fields, "name") == trace::kDroppedEvent) dropped_ += count_of(args_of(fields));
        break;
      default: break;
    }
    return {};
  }

  TraceSummary finish(TraceInfo info, std::size_t tensors) {
    TraceSummary summary;
    summary.info = std::move(info);
    summary.events = events_;
    summary.dropped = dropped_;
    summary.unfinished = open_.size();
    Stretch whole;
    bool any = false;
    for (auto& [rank, events] : ranks_) {
      if (!events.any) continue;
      whole =
          any ? Stretch{std::min(whole.start_ns, events.whole.start_ns), std::max(whole.stop_ns, events.whole.stop_ns)}
              : events.whole;
      any = true;
      summary.ranks.push_back(rank_summary(rank, events, summary.overlap));
    }
    summary.wall_ns = whole.stop_ns - whole.start_ns;
    summary.rows = all_rows();
    summary.tensors = slowest(tensors);
    summary.stragglers = stragglers();
    return summary;
  }

 private:
  using SpanKey = std::tuple<std::int64_t, std::string, std::string>;
  struct AllRanks {
    Stretches stretches;
    std::int64_t busy_ns = 0;
  };

  static SpanKey key_of(const TraceEvent& event, const json& fields) {
    const auto id = fields.find("id");
    return {event.pid, text_at(fields, "cat"), id == fields.end() ? text_at(fields, "name") : id->dump()};
  }

  static std::uint64_t count_of(const json& args) {
    const auto found = args.find("count");
    return found != args.end() && found->is_number_unsigned() ? found->get<std::uint64_t>() : 0;
  }

  void describe(const TraceEvent& event, const json& fields) {
    const std::string what = text_at(fields, "name");
    const json& args = args_of(fields);
    if (what == "process_name") ranks_[event.pid].name = text_at(args, "name");
    if (what == "process_labels") ranks_[event.pid].host = text_at(args, "host");
    if (what == "thread_name") ranks_[event.pid].lanes[event.tid] = text_at(args, "name");
  }

  void close(const TraceEvent& event, const json& fields, RankEvents& rank) {
    const auto found = open_.find(key_of(event, fields));
    if (found == open_.end()) return;
    const OpenSpan span = std::move(found->second);
    open_.erase(found);
    if (event.start_ns < span.start_ns) return;
    const Stretch stretch = {span.start_ns, event.start_ns};
    const std::string category = text_at(fields, "cat");
    rank.spans[category].push_back(stretch);
    if (category != trace::kNegotiate) return;
    TensorEvents& tensor = tensors_[span.name];
    tensor.waits.push_back(stretch);
    if (const std::int64_t length = stretch.stop_ns - stretch.start_ns; length > tensor.longest_ns) {
      tensor.longest_ns = length;
      tensor.slowest_rank = event.pid;
    }
    for (const int late : trace::ranks_waited_for(span.note)) rank.waited_for[late].push_back(stretch);
  }

  RankSummary rank_summary(std::int64_t number, const RankEvents& events, Overlap& sum) {
    RankSummary result;
    result.rank = number;
    result.name = events.name;
    result.host = events.host;
    if (result.name.empty()) result.name = fmt::format("rank {}", number);
    result.wall_ns = events.whole.stop_ns - events.whole.start_ns;
    Activities all;
    std::map<std::string, Stretches> lanes;  // several may have one name
    for (const auto& [tid, bars] : events.bars) {
      const auto known = events.lanes.find(tid);
      const std::string name = known != events.lanes.end() ? known->second : fmt::format("lane {}", tid);
      lanes[name].insert(lanes[name].end(), bars.begin(), bars.end());
    }
    for (const auto& [name, bars] : lanes) {
      all.add(name, bars);
      add_row(result.rows, name, false, bars);
    }
    for (const auto& [name, spans] : events.spans) {
      if (trace::is_waiting(name)) all.add(name, spans);
      add_row(result.rows, name, true, spans);
    }
    for (Stretches* activity : {&all.compute, &all.communication, &all.input, &all.waiting})
      *activity = joined(std::move(*activity));
    result.input_ns = total_ns(all.input);
    result.overlap = {total_ns(all.compute), total_ns(all.communication), common_ns(all.compute, all.communication)};
    result.shares = shares_of(all, result.wall_ns);
    sum.compute_ns = sum_ns(sum.compute_ns, result.overlap.compute_ns);
    sum.communication_ns = sum_ns(sum.communication_ns, result.overlap.communication_ns);
    sum.common_ns = sum_ns(sum.common_ns, result.overlap.common_ns);
    return result;
  }

  void add_row(std::vector<TraceRow>& rows, const std::string& name, bool spans, const Stretches& stretches) {
    rows.push_back({name, spans, length_stats(stretches), total_ns(joined(stretches))});
    AllRanks& all = all_[{spans, name}];
    all.stretches.insert(all.stretches.end(), stretches.begin(), stretches.end());
    all.busy_ns = sum_ns(all.busy_ns, rows.back().busy_ns);
  }

  std::vector<TraceRow> all_rows() const {
    std::vector<TraceRow> rows;
    for (const auto& [key, all] : all_)
      rows.push_back({key.second, key.first, length_stats(all.stretches), all.busy_ns});
    return rows;
  }

  std::vector<TensorWait> slowest(std::size_t most) const {
    std::vector<TensorWait> result;
    for (const auto& [name, events] : tensors_) {
      result.push_back({name, length_stats(events.waits), events.slowest_rank});
    }
    std::sort(result.begin(), result.end(), [](const TensorWait& a, const TensorWait& b) {
      return std::tie(b.lengths.total_ns, a.tensor) < std::tie(a.lengths.total_ns, b.tensor);
    });
    result.resize(std::min(result.size(), most));
    return result;
  }

  std::vector<Straggler> stragglers() const {
    std::map<std::int64_t, Straggler> late;
    for (const auto& [waiting, events] : ranks_) {
      for (const auto& [rank, waits] : events.waited_for) {
        Straggler& entry = late[rank];
        entry.rank = rank;
        entry.count += waits.size();
        entry.waited_ns = sum_ns(entry.waited_ns, total_ns(joined(waits)));
        entry.longest_ns = std::max(entry.longest_ns, length_stats(waits).max_ns);
      }
    }
    std::vector<Straggler> result;
    result.reserve(late.size());
    for (const auto& [rank, entry] : late) result.push_back(entry);
    std::stable_sort(result.begin(), result.end(),
                     [](const Straggler& a, const Straggler& b) { return a.waited_ns > b.waited_ns; });
    return result;
  }

  std::map<std::int64_t, RankEvents> ranks_;
  std::map<std::pair<bool, std::string>, AllRanks> all_;  // by kind and name of the lane
  std::map<std::string, TensorEvents> tensors_;
  std::map<SpanKey, OpenSpan> open_;
  std::uint64_t events_ = 0;
  std::uint64_t dropped_ = 0;
};

}  // namespace

Result<TraceSummary> summarize_trace(const std::string& path, std::size_t tensors, const TraceLimits& limits) {
  EventCollector collector;
  XOE_ASSIGN(TraceInfo info,
             read_trace(
                 path, [&collector](const TraceEvent& event) { return collector.take(event); }, limits));
  return collector.finish(std::move(info), tensors);
}

}  // namespace xoe::trace
