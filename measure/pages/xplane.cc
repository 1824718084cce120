#include "measure/pages/xplane.h"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <limits>
#include <map>
#include <protozero/pbf_writer.hpp>
#include <system_error>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/base/output_file.h"
#include "core/base/utf8.h"

namespace xoe::pages {
namespace {

using protozero::pbf_writer;

// The numbers of the fields in xplane.proto.
namespace space {
enum : protozero::pbf_tag_type { kPlanes = 1, kHostnames = 4 };
}
namespace plane {
enum : protozero::pbf_tag_type { kId = 1, kName = 2, kLines = 3, kEventMetadata = 4, kStatMetadata = 5 };
}
namespace line {
enum : protozero::pbf_tag_type { kId = 1, kName = 2, kTimestampNs = 3, kEvents = 4, kDurationPs = 9, kDisplayId = 10 };
}
namespace event {
enum : protozero::pbf_tag_type { kMetadataId = 1, kOffsetPs = 2, kDurationPs = 3, kStats = 4 };
}
namespace stat {
enum : protozero::pbf_tag_type { kMetadataId = 1, kInt64 = 4, kText = 5 };
}
// Of a map's entry, and of the metadata in it.
enum : protozero::pbf_tag_type { kKey = 1, kValue = 2, kMetadataId = 1, kMetadataName = 2 };

enum Stat : std::int64_t { kBytesStat = 1, kBatchStat, kTensorsStat, kNoteStat };
constexpr std::pair<Stat, const char*> kStatNames[] = {
    {kBytesStat, "bytes"}, {kBatchStat, "batch"}, {kTensorsStat, "tensors"}, {kNoteStat, "note"}};

// XProf shows planes whose names begin so beside those of a processor.
constexpr std::string_view kCustomPlane = "/device:CUSTOM:";
constexpr std::int64_t kPsPerNs = 1000;
constexpr std::int64_t kLongestNs = std::numeric_limits<std::int64_t>::max() / kPsPerNs;  // 106 days

void add_metadata(pbf_writer& to, protozero::pbf_tag_type map, std::int64_t id, const std::string& name) {
  pbf_writer entry(to, map);
  entry.add_int64(kKey, id);
  pbf_writer metadata(entry, kValue);
  metadata.add_int64(kMetadataId, id);
  metadata.add_string(kMetadataName, printable_utf8(name));
}

void add_count(pbf_writer& to, Stat which, std::int64_t count) {
  if (count < 0) return;
  pbf_writer one(to, event::kStats);
  one.add_int64(stat::kMetadataId, which);
  one.add_int64(stat::kInt64, count);
}

void add_event(pbf_writer& to, const ViewEvent& what, const TraceView& view) {
  pbf_writer one(to, line::kEvents);
  one.add_int64(event::kMetadataId, what.name);
  one.add_int64(event::kOffsetPs, what.start_ns * kPsPerNs);
  one.add_int64(event::kDurationPs, what.length_ns * kPsPerNs);
  add_count(one, kBytesStat, what.bytes);
  add_count(one, kBatchStat, what.batch);
  add_count(one, kTensorsStat, what.tensors);
  if (what.note == kNoText) return;
  pbf_writer note(one, event::kStats);
  note.add_int64(stat::kMetadataId, kNoteStat);
  note.add_string(stat::kText, printable_utf8(view.texts[what.note]));
}

// Returns the number of the next line.
std::int64_t add_lane(pbf_writer& to, const ViewLane& lane, const TraceView& view, std::int64_t number) {
  std::vector<std::vector<const ViewEvent*>> rows(std::max<std::uint32_t>(1, lane.rows));
  for (const ViewEvent& one : lane.events) rows[one.row].push_back(&one);
  for (std::size_t row = 0; row < rows.size(); ++row) {
    pbf_writer one(to, plane::kLines);
    one.add_int64(line::kId, number);
    one.add_int64(line::kDisplayId, number++);
    one.add_string(line::kName, printable_utf8(row == 0 ? lane.name : fmt::format("{} ({})", lane.name, row + 1)));
    one.add_int64(line::kTimestampNs, 0);
    one.add_int64(line::kDurationPs, view.length_ns * kPsPerNs);
    for (const ViewEvent* what : rows[row]) add_event(one, *what, view);
  }
  return number;
}

std::string rank_name(const Timeline& timeline, std::int64_t rank) {
  const auto& ranks = timeline.summary.ranks;
  const auto found = std::ranges::find(ranks, rank, &trace::RankSummary::rank);
  return found == ranks.end() || found->name.empty() ? fmt::format("rank {}", rank) : found->name;
}

void add_plane(pbf_writer& to, const Timeline& timeline, const std::vector<const ViewLane*>& lanes, std::int64_t id) {
  const TraceView& view = timeline.view;
  pbf_writer one(to, space::kPlanes);
  one.add_int64(plane::kId, id);
  one.add_string(plane::kName, printable_utf8(std::string(kCustomPlane) + rank_name(timeline, lanes.front()->rank)));
  std::vector<bool> named(view.texts.size());
  std::int64_t number = 1;
  for (const ViewLane* lane : lanes) {
    number = add_lane(one, *lane, view, number);
    for (const ViewEvent& what : lane->events) named[what.name] = true;
  }
  for (std::size_t text = 0; text < named.size(); ++text)
    if (named[text]) add_metadata(one, plane::kEventMetadata, static_cast<std::int64_t>(text), view.texts[text]);
  for (const auto& [which, name] : kStatNames) add_metadata(one, plane::kStatMetadata, which, name);
}

// For a file: what is no letter, digit, point or dash becomes a dash.
std::string file_name(std::string text) {
  for (char& c : text)
    if (std::isalnum(static_cast<unsigned char>(c)) == 0 && c != '.' && c != '-' && c != '_') c = '-';
  return text.empty() || text.starts_with('.') ? "run" + text : text;
}

std::string host_of(const Timeline& timeline) {
  const trace::TraceSummary& summary = timeline.summary;
  if (!summary.info.host.empty() || summary.ranks.empty()) return summary.info.host;
  return summary.ranks.front().host;
}

}  // namespace

Result<std::string> xplane_of(const Timeline& timeline) {
  if (timeline.view.length_ns > kLongestNs)
    return failure(Code::kUnsupported, "{}", "a profile of XProf counts picoseconds and has room for 106 days");
  std::map<std::int64_t, std::vector<const ViewLane*>> ranks;
  for (const ViewLane& lane : timeline.view.lanes) ranks[lane.rank].push_back(&lane);
  std::string bytes;
  pbf_writer all(bytes);
  std::int64_t id = 1;
  for (const auto& [rank, lanes] : ranks) add_plane(all, timeline, lanes, id++);
  if (const std::string host = host_of(timeline); !host.empty())
    all.add_string(space::kHostnames, printable_utf8(host));
  return bytes;
}

Result<std::string> write_xplane(const std::string& folder, const std::string& name, const Timeline& timeline) {
  const std::string place = fmt::format("{}/plugins/profile/{}", folder, file_name(name));
  XOE_ASSIGN(const std::string bytes, xplane_of(timeline));
  std::error_code error;
  std::filesystem::create_directories(place, error);
  if (error) return failure(Code::kUnavailable, "cannot make the folder {}: {}", place, error.message());
  const std::string path = fmt::format("{}/{}.xplane.pb", place, file_name(host_of(timeline)));
  XOE_TRY(write_file(path, bytes));
  return path;
}

}  // namespace xoe::pages
