#include "core/trace/merge.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include <nlohmann/json.hpp>

#include "core/base/error.h"
#include "core/base/fd.h"
#include "core/base/output_file.h"
#include "core/base/text.h"
#include "core/base/write_all.h"
#include "core/trace/file.h"
#include "core/trace/stats.h"
#include "core/trace/text.h"
#include "xoe/status.h"

namespace xoe::trace {
namespace {

// --- clocks of several hosts

struct ClockInput {
  TraceInfo info;
  std::int64_t first_ns = 0;  // the earliest event, relative to the file's time 0
};

using Files = std::vector<ClockInput>;

bool same_host(const TraceInfo& a, const TraceInfo& b) { return !a.boot_id.empty() && a.boot_id == b.boot_id; }

// How far the wall clock is ahead of the monotonic one. Nothing overflows: the reader has checked all numbers.
std::int64_t wall_offset(const TraceInfo& info) { return *info.wall_base_ns - info.base_ns; }

// The file that all files without an offset are aligned with.
const TraceInfo* reference_of(const Files& files) {
  const TraceInfo* reference = nullptr;
  for (const ClockInput& file : files) {
    if (!file.info.ours) continue;
    if (reference == nullptr || (!reference->clock && file.info.clock)) reference = &file.info;
  }
  return reference;
}

ClockShift shift_of(const TraceInfo& info, const TraceInfo& reference, const Files& files,
                    std::vector<std::string>& warnings) {
  if (info.clock) return {info.base_ns + info.clock->offset_ns, info.clock->uncertainty_ns, "told"};
  for (const ClockInput& other : files) {
    if (same_host(info, other.info) && other.info.clock) {
      return {info.base_ns + other.info.clock->offset_ns, other.info.clock->uncertainty_ns, "same host"};
    }
  }
  const std::int64_t offset = reference.clock ? reference.clock->offset_ns : 0;
  if (&info == &reference || same_host(info, reference)) return {info.base_ns + offset, 0, "reference"};
  const std::int64_t by_wall =
      info.wall_base_ns && reference.wall_base_ns ? wall_offset(info) - wall_offset(reference) : kClockLimitNs;
  if (std::abs(by_wall) < kClockLimitNs) {
    warnings.push_back(fmt::format(
        "{}: no clock offset was recorded; placed by the wall clocks of {} and {}, which may differ by milliseconds",
        info.path, info.host, reference.host));
    return {info.base_ns + offset + by_wall, 0, "wall clock"};
  }
  warnings.push_back(fmt::format("{}: no clock offset was recorded, nor the wall clock; taken as that of {}", info.path,
                                 reference.path));
  return {info.base_ns + offset, 0, "reference"};
}

// One shift for each input. A file without an offset takes the one of another file of the same host, else the wall
// clock decides, with a warning. A file of another program is shifted so that its first event is the first of all.
std::vector<ClockShift> align_clocks(const Files& files, std::vector<std::string>& warnings) {
  std::vector<ClockShift> shifts(files.size());
  const TraceInfo* reference = reference_of(files);
  std::int64_t start = 0;
  bool any = false;
  for (std::size_t i = 0; i < files.size(); ++i) {
    if (!files[i].info.ours) continue;
    shifts[i] = shift_of(files[i].info, *reference, files, warnings);
    const std::int64_t first = files[i].first_ns + shifts[i].shift_ns;
    start = any ? std::min(start, first) : first;
    any = true;
  }
  for (std::size_t i = 0; i < files.size(); ++i) {
    if (files[i].info.ours) continue;
    shifts[i] = {start - files[i].first_ns, 0, "first event"};
    warnings.push_back(
        fmt::format("{} was not written by Xoe: its first event is put at the start", files[i].info.path));
  }
  return shifts;
}

// --- text on disk

constexpr std::size_t kBuffer = std::size_t{1} << 20;

std::string folder_of(const std::string& path) {
  const auto slash = path.rfind('/');
  return slash == std::string::npos ? "." : path.substr(0, slash + 1);
}

// Text in an unnamed file in a folder, instead of in memory.
class Spool {
 public:
  static Result<Spool> create(std::string folder) {
    Fd fd(::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
    if (!fd.valid()) {  // not supported by every file system
      std::string name = folder + "/.xoe-merge-XXXXXX";
      fd = Fd(::mkostemp(name.data(), O_CLOEXEC));
      if (!fd.valid()) return cannot_write(folder, errno);
      ::unlink(name.c_str());
    }
    return Spool(std::move(fd), std::move(folder));
  }

  // Returns the offset of the text.
  Result<std::uint64_t> append(std::string_view text) {
    const std::uint64_t offset = size_;
    size_ += text.size();
    buffer_.append(text);
    if (buffer_.size() >= kBuffer) XOE_TRY(finish());
    return offset;
  }
  Status finish() {
    Status written = write_all(fd_.get(), folder_, buffer_);
    buffer_.clear();
    return written;
  }
  // REQUIRES: finish().
  Fd take() { return std::move(fd_); }
  // REQUIRES: finish().
  Status read(std::uint64_t offset, std::size_t bytes, std::string& text) const {
    text.resize(bytes);
    for (std::size_t done = 0; done < bytes;) {
      const ssize_t got = ::pread(fd_.get(), text.data() + done, bytes - done, static_cast<off_t>(offset + done));
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) {
        return failure(Code::kUnavailable, "cannot read back from {}: {}", folder_, errno_text(got < 0 ? errno : EIO));
      }
      done += static_cast<std::size_t>(got);
    }
    return {};
  }

 private:
  Spool(Fd fd, std::string folder) : fd_(std::move(fd)), folder_(std::move(folder)) {}

  Fd fd_;
  std::string folder_;
  std::string buffer_;
  std::uint64_t size_ = 0;
};

using nlohmann::json;

constexpr std::int64_t kRenumberStep = 1'000'000;
constexpr const char* kSortIndex = "sort_index";

// An event; its text, without the time, is in the spool.
struct Place {
  std::int64_t start_ns;
  std::int64_t length_ns;
  std::uint64_t offset;
  std::uint32_t bytes;
  std::uint32_t file;
};

class Merge {
 public:
  Merge(const MergeOptions& options, Spool spool) : options_(options), spool_(std::move(spool)) {}

  Status read(std::uint32_t index) {
    const std::string& path = options_.inputs[index];
    report_.files.emplace_back();
    first_ns_ = std::numeric_limits<std::int64_t>::max();
    ranks_.clear();
    moved_.clear();
    file_ = index;
    TraceLimits limits = options_.limits;
    limits.events -= std::min(limits.events, static_cast<std::uint64_t>(places_.size() + metadata_.size()));
    XOE_ASSIGN(const TraceInfo told, read_trace_header(path));
    jobs_.push_back(told.job);
    own_lanes_.clear();
    // LaneNames of a rank that goes on have other numbers here.
    if (!told.job.empty() && std::ranges::count(jobs_, told.job) > 1)
      XOE_TRY(read_trace(
          path, [this](const TraceEvent& event) { return note_lane(event, own_lanes_); }, limits));
    XOE_ASSIGN(TraceInfo info, read_trace(
                                   path, [this](const TraceEvent& event) { return take(event); }, limits));
    warn_of(info);
    MergeReport::File& file = report_.files.back();
    file.info = info;
    for (const auto& [from, to] : ranks_) file.ranks.push_back(to);
    std::sort(file.ranks.begin(), file.ranks.end());
    clocks_.push_back({std::move(info), file.events > 0 ? first_ns_ : 0});
    return {};
  }

  using Writer = std::function<Status(std::string_view)>;

  // REQUIRES: read() of each input; once.
  Result<MergeReport> write(const Writer& write) {
    XOE_TRY(spool_.finish());
    const auto shifts = align_clocks(clocks_, report_.warnings);
    for (std::size_t i = 0; i < shifts.size(); ++i) report_.files[i].clock = shifts[i];
    for (Place& place : places_) place.start_ns += shifts[place.file].shift_ns;
    // A bar before the bars inside it; otherwise in the order of recording.
    std::stable_sort(places_.begin(), places_.end(), [](const Place& a, const Place& b) {
      return a.start_ns != b.start_ns ? a.start_ns < b.start_ns : a.length_ns > b.length_ns;
    });
    const std::int64_t base = places_.empty() ? 0 : places_.front().start_ns;
    XOE_TRY(write(header(base)));
    std::string text;
    std::string line;
    for (const Place& place : metadata_) {
      XOE_TRY(spool_.read(place.offset, place.bytes, text));
      XOE_TRY(write(text.append(",\n")));
    }
    for (const Place& place : places_) {
      XOE_TRY(spool_.read(place.offset, place.bytes, text));
      line = R"({"ts":)";
      append_us(line, place.start_ns - base);
      line.append(",").append(text, 1).append(",\n");
      XOE_TRY(write(line));
      report_.length_ns = std::max(report_.length_ns, sum_ns(place.start_ns - base, place.length_ns));
    }
    XOE_TRY(write(trace_closing_lines()));
    return std::move(report_);
  }

 private:
  Status take(const TraceEvent& event) {
    json& fields = *event.fields;
    const auto known = ranks_.find(event.pid);
    std::int64_t rank = 0;
    if (known != ranks_.end()) {
      rank = known->second;
    } else {
      XOE_ASSIGN(rank, number_for(event.pid));
      ranks_.emplace(event.pid, rank);
    }
    fields["pid"] = rank;
    if (const auto lanes = moved_.find(event.pid); lanes != moved_.end())
      if (const auto lane = lanes->second.find(event.tid); lane != lanes->second.end()) fields["tid"] = lane->second;
    // Ids are global to all processes of a trace.
    if (rank != event.pid && fields.contains("id")) fields["id"] = fmt::format("{}:{}", rank, fields["id"].dump());
    if (rank != event.pid && event.phase == 'M' && fields.contains("args") && fields["args"].is_object() &&
        fields["name"] == "process_sort_index") {
      fields["args"][kSortIndex] = rank;
    }
    XOE_TRY(note_lane(event, lanes_, rank));
    fields.erase("ts");
    const std::string text = fields.dump(-1, ' ', false, json::error_handler_t::replace);
    XOE_ASSIGN(const std::uint64_t offset, spool_.append(text));
    const Place place = {event.start_ns, event.length_ns, offset, static_cast<std::uint32_t>(text.size()), file_};
    if (event.phase == 'M') {
      metadata_.push_back(place);
      return {};
    }
    ++report_.events;
    ++report_.files.back().events;
    first_ns_ = std::min(first_ns_, event.start_ns);
    places_.push_back(place);
    return {};
  }

  using LaneNames = std::map<std::int64_t, std::map<std::int64_t, std::string>>;  // names, by rank and number

  static Status note_lane(const TraceEvent& event, LaneNames& lanes, std::optional<std::int64_t> rank = {}) {
    const json& fields = *event.fields;
    if (event.phase != 'M' || fields.value("name", json()) != "thread_name") return {};
    const auto args = fields.find("args");
    if (args == fields.end() || !args->is_object() || !args->value("name", json()).is_string()) return {};
    const auto tid = fields.value("tid", json());
    lanes[rank.value_or(event.pid)].insert_or_assign(tid.is_number_integer() ? tid.get<std::int64_t>() : event.tid,
                                                     args->value("name", std::string()));
    return {};
  }

  // The rank goes on in the lanes of the same names, and in new ones.
  void join_lanes(std::int64_t pid) {
    auto& known = lanes_[pid];
    auto& moved = moved_[pid];
    for (const auto& [tid, name] : own_lanes_[pid]) {
      const auto same = known.find(tid);
      if (same == known.end() || same->second == name) continue;
      const auto named = std::ranges::find(known, name, [](const auto& lane) { return lane.second; });
      moved[tid] = named != known.end() ? named->first : known.rbegin()->first + 1;
      known.insert_or_assign(moved[tid], name);
    }
  }

  // The number in the output of rank `pid` of the current file.
  Result<std::int64_t> number_for(std::int64_t pid) {
    std::int64_t rank = pid;
    if (const auto owner = owners_.find(pid);
        owner != owners_.end() && !jobs_[file_].empty() && jobs_[owner->second] == jobs_[file_]) {
      join_lanes(pid);
      return pid;
    }
    while (!owners_.try_emplace(rank, file_).second) {
      if (!options_.renumber) {
        return failure(Code::kInvalidArgument,
                       "rank {} is in {} and in {}: are they of one run? --renumber keeps both, the second as {}", pid,
                       options_.inputs[owners_.at(rank)], options_.inputs[file_], pid + kRenumberStep);
      }
      rank += kRenumberStep;
      if (rank > std::numeric_limits<std::int32_t>::max()) {
        return failure(Code::kResourceExhausted, "{}: no number is left for rank {}", options_.inputs[file_], pid);
      }
    }
    if (rank != pid) {
      report_.warnings.push_back(fmt::format("rank {} of {} is rank {} of the merged trace, for {} has one, too", pid,
                                             options_.inputs[file_], rank, options_.inputs[owners_.at(pid)]));
    }
    return rank;
  }

  void warn_of(const TraceInfo& info) {
    if (info.cut_at) {
      report_.warnings.push_back(fmt::format(
          "{} ends at byte {} within an event or without its end; what is whole was kept", info.path, *info.cut_at));
    }
    if (info.ignored > 0) {
      report_.warnings.push_back(fmt::format("{}: {} left out that {} no sense, the first near byte {}", info.path,
                                             counted(static_cast<std::int64_t>(info.ignored), "event"),
                                             info.ignored == 1 ? "makes" : "make", info.first_ignored_at));
    }
  }

  std::string header(std::int64_t base_ns) const {
    TraceHeader merged;
    json hosts = json::array();
    std::int64_t uncertainty = 0;
    for (const MergeReport::File& file : report_.files) {
      const TraceInfo& info = file.info;
      const std::int64_t offset = file.clock.shift_ns - info.base_ns;
      hosts.push_back({{"host", info.host},
                       {"file", info.path},
                       {"clock", file.clock.how},
                       {"clock_offset_ns", offset},
                       {"clock_uncertainty_ns", file.clock.uncertainty_ns}});
      uncertainty = std::max(uncertainty, file.clock.uncertainty_ns);
      if (std::ranges::all_of(jobs_, [this](const std::string& job) { return job == jobs_.front(); }))
        merged.job = jobs_.front();
      if (merged.host.empty() && offset == 0) {
        merged.host = info.host;
        merged.boot_id = info.boot_id;
        merged.wall_base_ns = info.wall_base_ns.value_or(0) + (base_ns - info.base_ns);
      }
    }
    const std::string more =
        fmt::format(R"("merged":"{}","hosts":{},"clock_offset_ns":"0","clock_uncertainty_ns":"{}",)",
                    report_.files.size(), hosts.dump(-1, ' ', false, json::error_handler_t::replace), uncertainty);
    merged.base_ns = base_ns;
    return trace_header_line(merged, more);
  }

  const MergeOptions& options_;
  Spool spool_;
  MergeReport report_;
  std::vector<ClockInput> clocks_;
  std::vector<Place> places_;
  std::vector<Place> metadata_;
  std::map<std::int64_t, std::uint32_t> owners_;                        // rank of the output -> file
  std::map<std::int64_t, std::int64_t> ranks_;                          // of the current file
  std::vector<std::string> jobs_;                                       // of the files
  LaneNames lanes_;                                                     // of the output
  LaneNames own_lanes_;                                                 // of the current file, if it shares ranks
  std::map<std::int64_t, std::map<std::int64_t, std::int64_t>> moved_;  // by rank: numbers here -> in the output
  std::uint32_t file_ = 0;
  std::int64_t first_ns_ = 0;
};

// An output that exists must be none of the inputs.
Status check_inputs(const std::vector<std::string>& inputs, const std::string& output = {}) {
  if (inputs.empty()) return failure(Code::kInvalidArgument, "no traces to merge");
  std::set<std::pair<dev_t, ino_t>> seen;
  struct stat facts = {};
  if (!output.empty() && ::stat(output.c_str(), &facts) == 0) seen.emplace(facts.st_dev, facts.st_ino);
  for (const std::string& input : inputs) {
    if (::stat(input.c_str(), &facts) != 0) {
      return failure(Code::kUnavailable, "cannot open {}: {}", input, errno_text(errno));
    }
    if (!seen.emplace(facts.st_dev, facts.st_ino).second) {
      return failure(Code::kInvalidArgument, "{} is named twice{}", input,
                     output.empty() ? "" : "; the output comes first");
    }
  }
  return {};
}

Result<MergeReport> merge_to(const MergeOptions& options, std::string spool_folder, const Merge::Writer& writer) {
  XOE_ASSIGN(Spool spool, Spool::create(std::move(spool_folder)));
  Merge merge(options, std::move(spool));
  for (std::uint32_t i = 0; i < options.inputs.size(); ++i) XOE_TRY(merge.read(i));
  return merge.write(writer);
}

}  // namespace

std::string UnnamedTrace::path() const { return fmt::format("/proc/self/fd/{}", file.get()); }

Result<MergeReport> merge_traces(const MergeOptions& options) {
  XOE_TRY(check_inputs(options.inputs, options.output));
  if (!options.replace && ::access(options.output.c_str(), F_OK) == 0)
    return failure(Code::kInvalidArgument, "{} is there already; --overwrite replaces it", options.output);
  XOE_ASSIGN(OutputFile out, OutputFile::create(options.output));
  XOE_ASSIGN(MergeReport report,
             merge_to(options, folder_of(options.output), [&out](std::string_view text) { return out.write(text); }));
  XOE_TRY(out.finish());
  return report;
}

Result<UnnamedTrace> merge_unnamed(const MergeOptions& options, const std::string& folder) {
  XOE_TRY(check_inputs(options.inputs));
  XOE_ASSIGN(Spool out, Spool::create(folder));
  XOE_ASSIGN(MergeReport report, merge_to(options, folder, [&out](std::string_view text) -> Status {
               XOE_TRY(out.append(text));
               return {};
             }));
  XOE_TRY(out.finish());
  return UnnamedTrace{std::move(report), out.take()};
}

}  // namespace xoe::trace
