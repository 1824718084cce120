#include "measure/pages/timeline_figure.h"

#include <algorithm>
#include <utility>

#include "core/base/error.h"
#include "core/base/utf8.h"
#include "core/trace/text.h"
#include "measure/pages/assets.h"

namespace xoe::pages {
namespace {

constexpr std::size_t kTensors = 10;  // that waited longest

double part(std::int64_t ns, std::int64_t whole) {
  return whole > 0 ? static_cast<double>(ns) / static_cast<double>(whole) : 0;
}

std::string rank_shares(const trace::TraceSummary& summary) {
  std::vector<std::pair<std::string, std::vector<Share>>> rows;
  for (const trace::RankSummary& rank : summary.ranks) {
    const trace::TimeShares& shares = rank.shares;
    const std::int64_t wall = rank.wall_ns;
    rows.emplace_back(rank_heading(rank.rank, summary),
                      std::vector<Share>{{"compute", "computing", part(shares.compute_ns, wall)},
                                         {"input", "waiting for data", part(shares.input_ns, wall)},
                                         {"communication", "communicating", part(shares.communication_ns, wall)},
                                         {"waiting", "waiting for others", part(shares.waiting_ns, wall)},
                                         {"rest", "the rest", part(shares.rest_ns, wall)}});
  }
  std::string html = share_bars(rows);
  const trace::Overlap& overlap = summary.overlap;
  if (overlap.communication_ns > 0)
    html += fmt::format(
        "<p class=\"faint\">Each moment counts once, for the first of these that happened then. Of the communication, "
        "{:.1f} % was hidden behind computing.</p>\n",
        100 * part(overlap.common_ns, overlap.communication_ns));
  return html;
}

std::string waits(const trace::TraceSummary& summary) {
  std::string html;
  if (!summary.stragglers.empty()) {
    html +=
        "<div class=\"tablebox\"><h3>Ranks that others waited for</h3>\n<table><thead><tr><th>rank<th>others "
        "waited<th>tensors"
        "<th>longest</thead><tbody>\n";
    for (std::size_t i = 0; i < std::min(kTensors, summary.stragglers.size()); ++i) {
      const trace::Straggler& late = summary.stragglers[i];
      html += fmt::format("<tr><td>{}<td>{}<td>{}<td>{}\n", late.rank, time_text(late.waited_ns), late.count,
                          time_text(late.longest_ns));
    }
    html += "</tbody></table></div>\n";
  }
  if (!summary.tensors.empty()) {
    html +=
        "<div class=\"tablebox\"><h3>Tensors that waited longest to be agreed "
        "upon</h3>\n<table><thead><tr><th>tensor<th>total"
        "<th>count<th>longest<th>last rank</thead><tbody>\n";
    for (const trace::TensorWait& wait : summary.tensors)
      html += fmt::format("<tr><td class=\"name\">{}<td>{}<td>{}<td>{}<td>{}\n",
                          html_text(trace::shortened_text(printable_utf8(wait.tensor), 120)),
                          time_text(wait.lengths.total_ns), wait.lengths.count, time_text(wait.lengths.max_ns),
                          wait.slowest_rank);
    html += "</tbody></table></div>\n";
  }
  return html.empty() ? html : "<div class=\"tables\">\n" + html + "</div>\n";
}

// What the script shows at the head of each rank.
std::string ranks_json(const trace::TraceSummary& summary) {
  std::string out = "[";
  for (const trace::RankSummary& rank : summary.ranks) {
    if (out.back() != '[') out += ',';
    out += fmt::format(R"({{"rank":{},"title":")", rank.rank);
    trace::append_json_text(out, printable_utf8(rank_heading(rank.rank, summary)));
    out += "\",\"about\":\"";
    trace::append_json_text(out, printable_utf8(rank.name));
    out += "\"}";
  }
  return out + "]";
}

}  // namespace

Result<Timeline> read_timeline(const std::string& path, const ViewOptions& options) {
  XOE_ASSIGN(auto summary, trace::summarize_trace(path, kTensors, options.limits));
  XOE_ASSIGN(auto view, view_trace(path, options));
  return Timeline{std::move(summary), std::move(view)};
}

std::vector<std::string> notes_of(const trace::TraceSummary& summary) {
  const auto& info = summary.info;
  std::vector<std::string> notes;
  if (info.cut_at)
    notes.push_back(
        fmt::format("the file has no proper end (byte {}): a rank was killed, or still writes", *info.cut_at));
  if (info.ignored > 0)
    notes.push_back(fmt::format("events that make no sense were left out: {}, the first near byte {}", info.ignored,
                                info.first_ignored_at));
  if (summary.dropped > 0)
    notes.push_back(fmt::format("events dropped while recording, for want of room to write: {}", summary.dropped));
  return notes;
}

std::vector<std::string> notes_of(const Timeline& timeline) {
  const TraceView& view = timeline.view;
  std::vector<std::string> notes = notes_of(timeline.summary);
  if (view.left_out > 0)
    notes.push_back(
        fmt::format("{} of {} events are not drawn: the shortest, none longer than {}; --events N draws more. "
                    "The figures count them",
                    view.left_out, view.left_out + view.events, time_text(view.shortest_ns)));
  if (view.not_drawn > 0)
    notes.push_back(
        fmt::format("events that are not drawn, such as counters and spans without an end: {}", view.not_drawn));
  return notes;
}

void add_timeline(Page& page, const Timeline& timeline) {
  const auto& summary = timeline.summary;
  page.body += note_list(notes_of(timeline));
  if (!summary.ranks.empty()) page.body += "<h3>Where each rank's time went</h3>\n" + rank_shares(summary);
  const auto before =
      std::ranges::count_if(page.data, [](const auto& one) { return one.first.starts_with("timeline"); });
  const std::string id = before == 0 ? "timeline" : fmt::format("timeline-{}", before + 1);
  std::string html(assets::kTimelineHtml);
  constexpr std::string_view kPlace = "{{id}}";
  page.body += html.replace(html.find(kPlace), kPlace.size(), id) + waits(summary);
  page.data.emplace_back(id + "-data",
                         fmt::format("{{\"ranks\":{},\"view\":{}}}", ranks_json(summary), json_of(timeline.view)));
  if (before == 0) page.scripts.push_back(assets::kTimelineJs);
}

std::string time_text(std::int64_t ns) {
  const auto value = static_cast<double>(ns);
  if (ns >= 1'000'000'000) return fmt::format("{:.3g} s", value * 1e-9);
  if (ns >= 1'000'000) return fmt::format("{:.3g} ms", value * 1e-6);
  return fmt::format("{:.3g} µs", value * 1e-3);
}

std::string rank_heading(std::int64_t rank, const trace::TraceSummary& summary) {
  const auto found = std::ranges::lower_bound(summary.ranks, rank, {}, &trace::RankSummary::rank);
  const bool told = found != summary.ranks.end() && found->rank == rank && !found->host.empty();
  const std::string& host = told ? found->host : summary.info.host;
  return fmt::format("rank {}{}", rank, host.empty() ? "" : " on " + host);
}

std::string share_bars(const std::vector<std::pair<std::string, std::vector<Share>>>& rows) {
  if (rows.empty()) return {};
  std::string html = "<div class=\"legend\">";
  for (const Share& share : rows.front().second)
    html += fmt::format("<span><i class=\"{}\"></i>{}</span>", share.name, html_text(share.label));
  html += "</div>\n<div class=\"shares\">\n";
  for (const auto& [heading, shares] : rows) {
    html += fmt::format("<div class=\"share\"><span class=\"who\" title=\"{0}\">{0}</span><div class=\"bars\">",
                        html_text(heading));
    for (const Share& share : shares) {
      const double percent = 100 * std::clamp(share.part, 0.0, 1.0);
      if (percent < 0.05) continue;
      html +=
          fmt::format("<span class=\"{}\" style=\"flex-grow:{:.2f}\" title=\"{}: {:.1f} %\">{}</span>", share.name,
                      percent, html_text(share.label), percent, percent >= 9 ? fmt::format("{:.0f} %", percent) : "");
    }
    html += "</div></div>\n";
  }
  return html + "</div>\n";
}

std::string note_list(const std::vector<std::string>& notes) {
  if (notes.empty()) return {};
  std::string html = "<ul class=\"notes\">\n";
  for (const std::string& note : notes) html += fmt::format("<li>{}</li>\n", html_text(note));
  return html + "</ul>\n";
}

}  // namespace xoe::pages
