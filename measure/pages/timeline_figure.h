// A timeline within a page: where the time went, what happened when, and who waited for whom.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/trace/summary.h"
#include "measure/pages/page.h"
#include "measure/pages/trace_view.h"

namespace xoe::pages {

struct Timeline {
  trace::TraceSummary summary;
  TraceView view;
};

// Reads the file. The errors of read_trace().
Result<Timeline> read_timeline(const std::string& path, const ViewOptions& options = {});

// What a reader should know of a file that is not as it should be; empty if it is.
std::vector<std::string> notes_of(const trace::TraceSummary& summary);
// The same of one that is not shown as a whole; empty if there is nothing.
std::vector<std::string> notes_of(const Timeline& timeline);

// Adds shares of time for each rank, the timeline itself, and whom others waited for.
void add_timeline(Page& page, const Timeline& timeline);

std::string time_text(std::int64_t ns);  // "12.3 ms"
// "rank 3 on b"; without the host where the summary does not tell it.
std::string rank_heading(std::int64_t rank, const trace::TraceSummary& summary);

// Parts of a page, as HTML.

struct Share {
  std::string_view name;   // class of the style sheet: compute, input, communication, waiting, rest, optimizer
  std::string_view label;  // for people
  double part = 0;         // of 1
};
// A line of coloured bars for each row: {heading, shares}.
std::string share_bars(const std::vector<std::pair<std::string, std::vector<Share>>>& rows);
// <ul>; empty without notes.
std::string note_list(const std::vector<std::string>& notes);

}  // namespace xoe::pages
