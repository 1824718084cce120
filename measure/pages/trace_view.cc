#include "measure/pages/trace_view.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <queue>
#include <set>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "core/base/error.h"
#include "core/base/utf8.h"
#include "core/trace/names.h"
#include "core/trace/text.h"
#include "measure/pages/event_colors.h"
#include "measure/pages/facts.h"

namespace xoe::pages {
namespace {

using nlohmann::json;
using trace::TraceEvent;

constexpr std::size_t kLongestText = 1024;  // bytes
constexpr std::size_t kFewTexts = 1024;
constexpr std::size_t kMostArguments = 8;  // of other programs, for one event

std::int64_t count_at(const json& object, std::string_view key) {
  const auto found = object.find(std::string(key));
  if (found == object.end() || !found->is_number_integer()) return -1;
  const auto value = found->get<std::int64_t>();
  return value < 0 ? -1 : value;
}

class Texts {
 public:
  Texts() { number(""); }
  std::uint32_t number(const std::string& text) {
    const auto [place, fresh] =
        numbers_.try_emplace(trace::shortened_text(text, kLongestText), static_cast<std::uint32_t>(texts_.size()));
    if (fresh) texts_.push_back(place->first);
    return place->second;
  }
  std::size_t size() const { return texts_.size(); }
  // Forgets the other texts; returns the new number of each. REQUIRES: one for each text.
  std::vector<std::uint32_t> keep_only(const std::vector<bool>& used) {
    std::vector<std::uint32_t> renumbered(texts_.size(), kNoText);
    std::uint32_t next = kNoText + 1;
    for (std::uint32_t i = next; i < texts_.size(); ++i) {
      if (!used[i]) {
        numbers_.erase(texts_[i]);
        continue;
      }
      numbers_[texts_[i]] = renumbered[i] = next;
      if (i != next) texts_[next] = std::move(texts_[i]);
      ++next;
    }
    texts_.resize(next);
    return renumbered;
  }
  std::vector<std::string> take() { return std::move(texts_); }

 private:
  std::unordered_map<std::string, std::uint32_t> numbers_;
  std::vector<std::string> texts_;
};

struct Kept {
  ViewEvent event;
  std::uint32_t lane = 0;
};

// The note of Xoe, and what other programs tell of an event, as text.
std::string note_of(const json& args) {
  std::string note = text_at(args, trace::kNote.data());
  std::size_t count = 0;
  for (const auto& [key, value] : args.items()) {
    if (key == trace::kNote || key == trace::kBytes || key == trace::kBatch || key == trace::kTensors) continue;
    if (++count > kMostArguments) continue;
    if (!note.empty()) note += "; ";
    note += key + ": " +
            (value.is_string() ? value.get<std::string>() : value.dump(-1, ' ', false, json::error_handler_t::replace));
  }
  if (count > kMostArguments) note += fmt::format("; {} more", count - kMostArguments);
  return note;
}

class ViewCollector {
 public:
  explicit ViewCollector(std::size_t most) : most_(std::clamp<std::size_t>(most, 1, kMostEvents)) {}

  Status take(const TraceEvent& event) {
    const json& fields = *event.fields;
    switch (event.phase) {
      case 'M': describe(event, fields); break;
      case 'X':
      case 'i': keep(described(event, fields), lane_of(event.pid, false, event.tid, {})); break;
      case 'b': open_span(event, fields); break;
      case 'e': close_span(event, fields); break;
      default: ++not_drawn_; break;
    }
    return {};
  }

  TraceView finish() {
    not_drawn_ += open_.size();
    open_.clear();
    if (kept_.size() > most_) prune();
    drop_unused_texts();
    TraceView view;
    view.events = kept_.size();
    view.left_out = left_out_;
    view.not_drawn = not_drawn_;
    if (kept_.empty()) first_ns_ = last_ns_ = 0;
    view.length_ns = last_ns_ - first_ns_;
    std::int64_t shortest = std::numeric_limits<std::int64_t>::max();
    for (const Kept& kept : kept_) shortest = std::min(shortest, kept.event.length_ns);
    if (left_out_ > 0) view.shortest_ns = shortest;
    view.lanes = lanes();
    view.texts = texts_.take();
    return view;
  }

 private:
  using LaneKey = std::tuple<std::int64_t, bool, std::int64_t, std::string>;  // rank, spans, lane, category
  using SpanKey = std::tuple<std::int64_t, std::string, std::string>;
  using LaneName = std::pair<std::int64_t, std::int64_t>;

  std::uint32_t lane_of(std::int64_t rank, bool spans, std::int64_t tid, std::string category) {
    return lanes_.try_emplace({rank, spans, tid, std::move(category)}, static_cast<std::uint32_t>(lanes_.size()))
        .first->second;
  }

  void describe(const TraceEvent& event, const json& fields) {
    const std::string what = text_at(fields, "name");
    const auto args = fields.find("args");
    if (args == fields.end() || !args->is_object()) return;
    if (what == "thread_name") names_[{event.pid, event.tid}] = text_at(*args, "name");
    if (what == "thread_sort_index") order_[{event.pid, event.tid}] = count_at(*args, "sort_index");
  }

  ViewEvent described(const TraceEvent& event, const json& fields) {
    ViewEvent result = {.start_ns = event.start_ns, .length_ns = event.length_ns};
    result.name = texts_.number(text_at(fields, "name"));
    const auto args = fields.find("args");
    if (args == fields.end() || !args->is_object()) return result;
    result.note = texts_.number(note_of(*args));
    result.bytes = count_at(*args, trace::kBytes);
    result.batch = count_at(*args, trace::kBatch);
    result.tensors = count_at(*args, trace::kTensors);
    return result;
  }

  static SpanKey key_of(const TraceEvent& event, const json& fields) {
    const auto id = fields.find("id");
    return {event.pid, text_at(fields, "cat"),
            id == fields.end() ? text_at(fields, "name") : id->dump(-1, ' ', false, json::error_handler_t::replace)};
  }

  void open_span(const TraceEvent& event, const json& fields) {
    // Another start under the same id replaces the first.
    if (!open_.insert_or_assign(key_of(event, fields), described(event, fields)).second) ++not_drawn_;
  }

  void close_span(const TraceEvent& event, const json& fields) {
    const auto found = open_.find(key_of(event, fields));
    if (found == open_.end() || event.start_ns < found->second.start_ns) {
      ++not_drawn_;
      return;
    }
    ViewEvent span = found->second;
    open_.erase(found);
    span.length_ns = event.start_ns - span.start_ns;
    keep(span, lane_of(event.pid, true, 0, text_at(fields, "cat")));
  }

  void keep(const ViewEvent& event, std::uint32_t lane) {
    first_ns_ = std::min(first_ns_, event.start_ns);
    last_ns_ = std::max(last_ns_, event.start_ns + event.length_ns);
    kept_.push_back({event, lane});
    if (kept_.size() >= 2 * most_) prune();
  }

  // Only the longest stay.
  void prune() {
    const auto last = kept_.begin() + static_cast<std::ptrdiff_t>(most_);
    std::nth_element(kept_.begin(), last - 1, kept_.end(),
                     [](const Kept& a, const Kept& b) { return a.event.length_ns > b.event.length_ns; });
    left_out_ += kept_.size() - most_;
    kept_.erase(last, kept_.end());
    // Not each time: the cost for each event stays constant.
    if (texts_.size() > 4 * (kept_.size() + open_.size()) + kFewTexts) drop_unused_texts();
  }

  template <class Visitor>
  void for_each_event(Visitor visit) {
    for (Kept& kept : kept_) visit(kept.event);
    for (auto& [key, event] : open_) visit(event);
  }

  void drop_unused_texts() {
    std::vector<bool> used(texts_.size());
    for_each_event([&used](const ViewEvent& event) { used[event.name] = used[event.note] = true; });
    const std::vector<std::uint32_t> renumbered = texts_.keep_only(used);
    for_each_event([&renumbered](ViewEvent& event) {
      event.name = renumbered[event.name];
      event.note = renumbered[event.note];
    });
  }

  std::vector<ViewLane> lanes() {
    std::vector<std::vector<ViewEvent>> events(lanes_.size());
    for (const Kept& kept : kept_) {
      events[kept.lane].push_back(kept.event);
      events[kept.lane].back().start_ns -= first_ns_;
    }
    std::vector<std::tuple<std::int64_t, bool, std::int64_t, std::int64_t, std::string, std::uint32_t>> order;
    for (const auto& [key, number] : lanes_) {
      const auto& [rank, spans, tid, category] = key;
      const auto place = order_.find({rank, tid});
      if (!events[number].empty())
        order.emplace_back(rank, spans, place == order_.end() || spans ? tid : place->second, tid, category, number);
    }
    std::sort(order.begin(), order.end());
    std::vector<ViewLane> result;
    for (const auto& [rank, spans, place, tid, category, number] : order) {
      ViewLane lane = {.rank = rank,
                       .name = trace::shortened_text(spans ? category : name_of(rank, tid), kLongestText),
                       .spans = spans,
                       .events = std::move(events[number])};
      if (lane.name.empty()) lane.name = "spans";
      std::stable_sort(lane.events.begin(), lane.events.end(), [](const ViewEvent& a, const ViewEvent& b) {
        return a.start_ns != b.start_ns ? a.start_ns < b.start_ns : a.length_ns > b.length_ns;
      });
      lane.rows = stack_rows(lane.events);
      result.push_back(std::move(lane));
    }
    return result;
  }

  std::string name_of(std::int64_t rank, std::int64_t tid) const {
    const auto known = names_.find({rank, tid});
    return known != names_.end() && !known->second.empty() ? known->second : fmt::format("lane {}", tid);
  }

  std::size_t most_;
  std::map<LaneKey, std::uint32_t> lanes_;
  std::map<LaneName, std::string> names_;
  std::map<LaneName, std::int64_t> order_;
  std::map<SpanKey, ViewEvent> open_;
  std::vector<Kept> kept_;
  Texts texts_;
  std::int64_t first_ns_ = std::numeric_limits<std::int64_t>::max();
  std::int64_t last_ns_ = std::numeric_limits<std::int64_t>::min();
  std::uint64_t left_out_ = 0;
  std::uint64_t not_drawn_ = 0;
};

void append_text(std::string& out, std::string_view text) {
  out += '"';
  trace::append_json_text(out, printable_utf8(text));
  out += '"';
}

// `,"key":[1,2,...]`
template <class Value>
void append_column(std::string& out, const char* key, const std::vector<ViewEvent>& events, Value value) {
  out.append(",\"").append(key).append("\":[");
  for (const ViewEvent& event : events) {
    const auto number = static_cast<std::int64_t>(value(event));
    if (out.back() != '[') out += ',';
    if (number < 0) out += '-';
    trace::append_number(out, number < 0 ? -static_cast<std::uint64_t>(number) : static_cast<std::uint64_t>(number));
  }
  out += ']';
}

// The same, unless all are `usual`.
template <class Value>
void append_column_unless(std::int64_t usual, std::string& out, const char* key, const std::vector<ViewEvent>& events,
                          Value value) {
  if (!std::all_of(events.begin(), events.end(), [&](const ViewEvent& event) { return value(event) == usual; }))
    append_column(out, key, events, value);
}

void append_lane(std::string& out, const ViewLane& lane) {
  out += fmt::format(R"({{"rank":{},"rows":{},"spans":{},"title":)", lane.rank, lane.rows, lane.spans);
  append_text(out, lane.name);
  if (const auto color = lane_color(lane.name, lane.spans)) out += fmt::format(",\"color\":{}", *color);
  const auto& events = lane.events;
  append_column(out, "start", events, [before = std::int64_t{0}](const ViewEvent& event) mutable {
    return event.start_ns - std::exchange(before, event.start_ns);
  });
  append_column(out, "length", events, [](const ViewEvent& event) { return event.length_ns; });
  append_column(out, "name", events, [](const ViewEvent& event) { return event.name; });
  append_column_unless(0, out, "row", events, [](const ViewEvent& event) { return event.row; });
  append_column_unless(kNoText, out, "note", events, [](const ViewEvent& event) { return event.note; });
  append_column_unless(-1, out, "bytes", events, [](const ViewEvent& event) { return event.bytes; });
  append_column_unless(-1, out, "batch", events, [](const ViewEvent& event) { return event.batch; });
  append_column_unless(-1, out, "tensors", events, [](const ViewEvent& event) { return event.tensors; });
  out += '}';
}

}  // namespace

Result<TraceView> view_trace(const std::string& path, const ViewOptions& options) {
  ViewCollector collector(options.events);
  XOE_TRY(trace::read_trace(
      path, [&collector](const TraceEvent& event) { return collector.take(event); }, options.limits));
  return collector.finish();
}

std::uint32_t stack_rows(std::vector<ViewEvent>& events) {
  using Busy = std::pair<std::int64_t, std::uint32_t>;  // until when, row
  std::priority_queue<Busy, std::vector<Busy>, std::greater<>> busy;
  std::set<std::uint32_t> free;
  std::uint32_t rows = 0;
  for (ViewEvent& event : events) {
    while (!busy.empty() && busy.top().first <= event.start_ns) {
      free.insert(busy.top().second);
      busy.pop();
    }
    if (free.empty()) free.insert(rows++);
    event.row = free.extract(free.begin()).value();
    busy.emplace(event.start_ns + event.length_ns, event.row);
  }
  return rows;
}

std::string json_of(const TraceView& view) {
  std::string out = fmt::format(R"({{"length":{},"events":{},"left_out":{},"shortest":{},"lanes":[)", view.length_ns,
                                view.events, view.left_out, view.shortest_ns);
  for (const ViewLane& lane : view.lanes) {
    if (out.back() != '[') out += ",\n";
    append_lane(out, lane);
  }
  out += "],\n\"texts\":[";
  for (const std::string& text : view.texts) {
    if (out.back() != '[') out += ',';
    append_text(out, text);
  }
  out += "],\n\"colors\":[";
  for (const std::string& text : view.texts) {
    if (out.back() != '[') out += ',';
    trace::append_number(out, event_color(text));
  }
  return out + fmt::format("],\n\"palette\":[\"{}\"]}}", fmt::join(kEventColors, "\",\""));
}

}  // namespace xoe::pages
