#include "launch/output/job_streams.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <system_error>

#include "core/base/error.h"
#include "core/base/file_identity.h"
#include "core/bootstrap/world_page.h"
#include "launch/output/rank_tag.h"
#include "launch/remote/child_process.h"

namespace xoe::launch {
namespace {

constexpr std::size_t kInput = SIZE_MAX;
constexpr std::size_t kRelay = SIZE_MAX - 1;

// Opens one output stream of a rank and gives the rank's end to `end`.
Result<Stream> open_stream(const RunOptions& options, int rank, bool err, Output& output, Fd& end) {
  XOE_ASSIGN(auto file, open_output_file(options, rank, err, false));
  XOE_ASSIGN(auto pipe, remote::open_pipe());
  remote::set_nonblocking(pipe[0]);
  end = std::move(pipe[1]);
  return stream_to(options, rank, err, output, std::move(pipe[0]), std::move(file));
}

// Of rank 0 alone: every rank's would be too much for a terminal.
void show_live(const RunOptions& options, std::vector<Stream>& streams, Output& output) {
  if (streams.empty()) return;
  if (options.panel) {
    std::vector<std::string> tags;
    tags.reserve(static_cast<std::size_t>(options.slots()));
    for (int rank = 0; rank < options.slots(); ++rank) tags.push_back(rank_tag(rank, options.color));
    output.use_panel(std::move(tags), options.color);
  }
  streams[0].show_live(Sink::Place::kOut);
  streams[1].show_live(Sink::Place::kErr);
}

}  // namespace

bool JobStreams::open() const {
  for (const Stream& stream : streams_)
    if (stream.open()) return true;
  return false;
}

void JobStreams::begin_drain(Clock::time_point now) {
  relay_.close();
  heard_.assign(streams_.size(), now);
}

void JobStreams::close_silent(Clock::time_point now, Clock::duration timeout) {
  for (std::size_t i = 0; i < streams_.size(); ++i)
    if (now - heard_[i] >= timeout) streams_[i].close();
}

std::optional<JobStreams::Clock::time_point> JobStreams::next_silent(Clock::duration timeout) const {
  std::optional<Clock::time_point> first;
  for (std::size_t i = 0; i < streams_.size(); ++i)
    if (streams_[i].wants_to_read()) first = std::min(first.value_or(Clock::time_point::max()), heard_[i] + timeout);
  return first;
}

std::vector<int> JobStreams::descriptors() const {
  std::vector<int> all;
  for (const Stream& stream : streams_) all.push_back(stream.fd());
  if (relay_.write_end() >= 0) all.push_back(relay_.write_end());
  return all;
}

void JobStreams::add_to(std::vector<pollfd>& polled) {
  first_ = polled.size();
  waiting_.clear();
  const auto add = [&](int fd, short events, std::size_t what) {
    polled.push_back({.fd = fd, .events = events, .revents = 0});
    waiting_.push_back(what);
  };
  for (std::size_t i = 0; i < streams_.size(); ++i)
    if (streams_[i].wants_to_read()) add(streams_[i].fd(), POLLIN, i);
  if (relay_.wants_input()) add(STDIN_FILENO, POLLIN, kInput);
  if (relay_.wants_output()) add(relay_.write_end(), POLLOUT, kRelay);
}

void JobStreams::take(const std::vector<pollfd>& polled, Clock::time_point now) {
  ready_.clear();
  for (std::size_t i = 0; i < waiting_.size(); ++i)
    if (polled[first_ + i].revents != 0) ready_.push_back(waiting_[i]);
  // The first entries are the streams that were read, in order.
  std::size_t entry = 0;
  for (std::size_t i = 0; i < streams_.size(); ++i) {
    const bool polled_it = entry < waiting_.size() && waiting_[entry] == i;
    if (!polled_it || polled[first_ + entry].revents != 0) heard_[i] = now;
    if (polled_it) ++entry;
  }
}

void JobStreams::pump() {
  // Another one comes first each time: where the sink has room for one stream at a time, each has its turn.
  if (!ready_.empty())
    std::ranges::rotate(ready_, ready_.begin() + static_cast<std::ptrdiff_t>(turn_++ % ready_.size()));
  for (const std::size_t what : ready_) {
    if (what == kInput)
      relay_.read();
    else if (what == kRelay)
      relay_.write();
    else if (streams_[what].wants_to_read())  // those before it may have filled the sink
      streams_[what].pump();
  }
  for (Stream& stream : streams_) stream.flush_bar(Clock::now());
}

Result<OpenedStreams> open_streams(const RunOptions& options, Output& output) {
  std::vector<Stream> streams;
  std::vector<RankEnds> ends;
  StdinRelay relay;
  for (int rank = 0; rank < options.slots(); ++rank) {
    RankEnds& end = ends.emplace_back();
    XOE_ASSIGN(auto out, open_stream(options, rank, false, output, end.out));
    XOE_ASSIGN(auto err, open_stream(options, rank, true, output, end.err));
    streams.push_back(std::move(out));
    streams.push_back(std::move(err));
    if (rank == 0 && ::isatty(STDIN_FILENO) == 1) {
      XOE_ASSIGN(auto pipe, remote::open_pipe());
      remote::set_nonblocking(pipe[1]);
      end.in = std::move(pipe[0]);
      relay = StdinRelay(STDIN_FILENO, std::move(pipe[1]), output.out());
    } else if (rank > 0) {
      end.in = Fd(::open("/dev/null", O_RDONLY | O_CLOEXEC));
      if (!end.in.valid()) return failure(Code::kUnavailable, "cannot open /dev/null: {}", errno_text(errno));
    }
  }
  show_live(options, streams, output);
  return OpenedStreams{JobStreams(std::move(streams), std::move(relay)), std::move(ends)};
}

Result<OutputFile> open_output_file(const RunOptions& options, int rank, bool err, bool again) {
  if (options.output_dir.empty()) return OutputFile{};
  const std::string folder = fmt::format("{}/rank.{}", options.output_dir, rank);
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error)
    return failure(Code::kUnavailable, "--output-dir {}: cannot make {}: {}", options.output_dir, folder,
                   error.message());
  OutputFile file{.fd = {}, .path = fmt::format("{}/{}", folder, err ? "stderr" : "stdout")};
  // A job of several members begins again in rounds, also in a new process of member 0, which cannot know.
  const int before = !again && options.rendezvous.at.empty() ? O_TRUNC : O_APPEND;
  file.fd = Fd(::open(file.path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | before, 0666));
  if (!file.fd.valid())
    return failure(Code::kUnavailable, "--output-dir {}: cannot write {}: {}", options.output_dir, file.path,
                   errno_text(errno));
  return file;
}

Stream stream_to(const RunOptions& options, int rank, bool err, Output& output, Fd pipe, OutputFile file) {
  Sink& sink = !options.shows(rank) ? output.none() : err ? output.err() : output.out();
  std::string tag = options.tag_output ? rank_tag(rank, sink.terminal() && options.color) : "";
  return {std::move(pipe), std::move(file.fd), std::move(file.path), std::move(tag), sink};
}

Result<std::vector<Stream>> open_remote_streams(const RunOptions& options, int slots, Output& output) {
  std::vector<Stream> streams;
  for (int rank = 0; rank < slots; ++rank)
    for (const bool err : {false, true}) {
      XOE_ASSIGN(auto file, open_output_file(options, rank, err, false));
      streams.push_back(stream_to(options, rank, err, output, Fd(), std::move(file)));
    }
  show_live(options, streams, output);
  return streams;
}

RankCommands::RankCommands(const JobPlan& plan, const std::vector<RankEnds>& ends, const remote::Inherited& inherited,
                           std::string_view status_path, std::string_view world_path)
    : status_(fmt::format("{}={}", bootstrap::kStatusVariable, status_path)),
      world_(fmt::format("{}={}", bootstrap::kWorldVariable, world_path)),
      argv_(remote::c_strings(plan.arguments)),
      shell_argv_(remote::script_arguments(plan.program, argv_)) {
  terminals_.resize(plan.ranks.size());
  environments_.resize(plan.ranks.size());
  for (std::size_t i = 0; i < plan.ranks.size(); ++i) {
    const RankPlan& rank = plan.ranks[i];
    environments_[i] = remote::c_strings(rank.environment);
    terminals_[i] = fmt::format("XOE_TERMINAL={}", file_identity(ends[i].out.get()));
    for (std::size_t k = 0; k < rank.environment.size(); ++k)
      if (rank.environment[k].starts_with("XOE_TERMINAL="))
        environments_[i][k] = terminals_[i].data();
      else if (rank.environment[k].starts_with(status_.substr(0, status_.find('=') + 1)))
        environments_[i][k] = status_.data();
      else if (rank.environment[k].starts_with(world_.substr(0, world_.find('=') + 1)))
        environments_[i][k] = world_.data();
    remote::SpawnRequest& request = requests_.emplace_back();
    request.path = plan.program.c_str();
    request.argv = argv_.data();
    request.shell_argv = shell_argv_.data();
    request.envp = environments_[i].data();
    request.in = ends[i].in.valid() ? ends[i].in.get() : STDIN_FILENO;
    request.out = ends[i].out.get();
    request.err = ends[i].err.get();
    request.signal_mask = inherited.mask;
    request.open_files = inherited.open_files;
    if (rank.cpus.empty()) continue;
    cpu_set_t set;
    CPU_ZERO(&set);
    for (const int cpu : rank.cpus) CPU_SET(cpu, &set);
    request.cpus = set;
  }
}

}  // namespace xoe::launch
