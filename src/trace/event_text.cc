#include "trace/event_text.h"

#include <fmt/format.h>
#include <unistd.h>

#include <iterator>

#include "trace/names.h"
#include "trace/text.h"

namespace xoe::trace {
namespace {

template <class... Args>
void add(std::string& lines, fmt::format_string<Args...> format, Args&&... args) {
  fmt::format_to(std::back_inserter(lines), format, std::forward<Args>(args)...);
}

void add_args(std::string& lines, const TimelineEvent& event, const TimelineNames& names) {
  char separator = '{';
  const auto next = [&](std::string_view key) {
    if (separator == '{') lines += R"(,"args":)";
    lines += std::exchange(separator, ',');
    lines.append("\"").append(key).append("\":");
  };
  for (std::size_t i = 0; i < event.keys.size(); ++i) {
    if (event.keys[i] == 0) continue;
    next(names.text(event.keys[i]));
    if (event.values[i] < 0) lines += '-';
    const auto value = static_cast<std::uint64_t>(event.values[i]);
    append_number(lines, event.values[i] < 0 ? -value : value);
  }
  if (event.note != 0) {
    next(trace::kNote);
    lines.append("\"").append(names.text(event.note)).append("\"");
  }
  if (separator == ',') lines += '}';
}

}  // namespace

void TimelineText::add_start(std::string& lines, std::string_view phase, int lane, std::int64_t at_ns) const {
  lines.append(R"({"ph":")").append(phase).append(R"(","pid":)");
  append_number(lines, static_cast<std::uint64_t>(rank_));
  lines += R"(,"tid":)";
  append_number(lines, static_cast<std::uint64_t>(lane));
  lines += R"(,"ts":)";
  append_us(lines, at_ns - base_ns_);
}

void TimelineText::add_event(std::string& lines, const TimelineEvent& event, const TimelineNames& names) const {
  const std::string& name = names.text(event.name);
  switch (event.kind) {
    case TimelineEvent::Kind::kBar:
      add_start(lines, "X", event.lane, event.start_ns);
      lines += R"(,"dur":)";
      append_us(lines, event.stop_ns - event.start_ns);
      lines.append(R"(,"name":")").append(name).append("\"");
      break;
    case TimelineEvent::Kind::kMark:
      add_start(lines, "i", event.lane, event.start_ns);
      add(lines, R"(,"s":"t","name":"{}")", name);
      break;
    case TimelineEvent::Kind::kSpan: {
      // The rank is part of the id: ids are global to all processes of a trace.
      add_start(lines, "b", kSpanLane, event.start_ns);
      const std::size_t begin = lines.size();
      lines.append(R"(,"cat":")").append(names.text(static_cast<std::uint32_t>(event.lane))).append(R"(","id":"0x)");
      append_number(lines, (static_cast<std::uint64_t>(rank_) + 1) << 48 | (event.id & 0xffff'ffff'ffffU), 16);
      lines.append(R"(","name":")").append(name).append("\"");
      const std::size_t length = lines.size() - begin;
      add_args(lines, event, names);
      lines += "},";
      // On one line, so that a cut cannot separate them.
      add_start(lines, "e", kSpanLane, event.stop_ns);
      lines.append(lines, begin, length).append("},\n");
      return;
    }
  }
  add_args(lines, event, names);
  lines += "},\n";
}

void TimelineText::add_lane(std::string& lines, int lane, std::string_view name, int order) const {
  add(lines, R"({{"ph":"M","name":"thread_name","pid":{},"tid":{},"args":{{"name":")", rank_, lane);
  append_json_text(lines, name);
  lines += "\"}},\n";
  add(lines, R"({{"ph":"M","name":"thread_sort_index","pid":{},"tid":{},"args":{{"sort_index":{}}}}},)", rank_, lane,
      order);
  lines += '\n';
}

void TimelineText::add_process(std::string& lines, const TimelineOptions& options) const {
  std::string host;
  append_json_text(host, options.host);
  add(lines,
      R"--({{"ph":"M","name":"process_name","pid":{0},"tid":0,"args":{{"name":"rank {0} (host {1}, pid {2})"}}}},)--",
      rank_, host, ::getpid());
  lines += '\n';
  const std::string local = options.local_rank < 0 ? "" : fmt::format(R"(,"local_rank":{})", options.local_rank);
  const std::string shown = options.local_rank < 0 ? "" : fmt::format(", local rank {}", options.local_rank);
  add(lines, R"({{"ph":"M","name":"process_labels","pid":{0},"args":{{"labels":"host {1}{2}","host":"{1}"{3},)", rank_,
      host, shown, local);
  add(lines, R"("os_pid":{}}}}},)", ::getpid());
  lines += '\n';
  add(lines, R"({{"ph":"M","name":"process_sort_index","pid":{0},"args":{{"sort_index":{0}}}}},)", rank_);
  lines += '\n';
}

void TimelineText::add_clock(std::string& lines, std::int64_t offset_ns, std::int64_t uncertainty_ns) const {
  add(lines, R"({{"ph":"M","name":"{}","pid":{},"args":{{"clock_offset_ns":{},"clock_uncertainty_ns":{}}}}},)",
      trace::kClockEvent, rank_, offset_ns, uncertainty_ns);
  lines += '\n';
}

void TimelineText::add_dropped(std::string& lines, std::uint64_t count, std::int64_t now_ns) const {
  add_start(lines, "i", kSpanLane, now_ns);
  add(lines, R"(,"s":"p","name":"{}","args":{{"count":{}}}}},)", trace::kDroppedEvent, count);
  lines += '\n';
}

}  // namespace xoe::trace
