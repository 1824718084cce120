// xoe notice: waits until this machine is to be taken away, and says so.
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "core/base/error.h"
#include "core/base/text.h"
#include "core/base/text_file.h"
#include "core/command_line/parse/command_line.h"
#include "launch/notice/clouds.h"

namespace {

using namespace xoe;
using notice::Departure;
using Clock = std::chrono::system_clock;

constexpr int kFailed = 1;
constexpr int kStays = 3;
using tools::kUsageError;

constexpr const char* kExamples = R"(Examples:
  xoe notice aws                 waits for the notice of a spot instance
  xoe notice gcp --once          is there one now?
  xoe notice file:/run/leaving   waits for this file, which may hold the
                                 seconds that are left

`xoe run --notice aws` has it watched on every host: the ranks there leave at
the end of their next step, and the others go on.

Prints one line, "SECONDS WHY". Exit codes: 0 the machine is to be taken away,
3 it stays (--once), 1 it cannot be found out (--once), 2 wrong usage.)";

struct NoticeOptions {
  std::string source;
  std::string endpoint = "http://169.254.169.254";
  double every = 5;
  bool once = false;
  bool json = false;
};

// Without a number in the file, as many seconds as most clouds give.
constexpr auto kFileLimit = std::chrono::seconds(30);

// The file may be written in a moment, so that it is empty for a while.
Result<std::optional<Departure>> look_at_file(const std::string& path) {
  if (::access(path.c_str(), F_OK) != 0) {
    if (errno == ENOENT || errno == ENOTDIR) return std::nullopt;
    return failure(Code::kUnavailable, "{}: {}", path, errno_text(errno));
  }
  const auto text = read_text_file(path);
  if (!text) return failure(text.error());
  const auto line = notice::parse_notice_line(split_text(*text, '\n').front());
  return Departure{.at = Clock::now() + (line ? Clock::duration(line->left) : Clock::duration(kFileLimit)),
                   .why = fmt::format("the file {} is there{}", path,
                                      line && !line->why.empty() ? ": " + line->why : std::string())};
}

int tell(const Departure& departure, const NoticeOptions& options) {
  if (!options.json) {
    fmt::print("{}\n", notice::notice_line(departure, Clock::now()));
  } else {
    const nlohmann::ordered_json line{{"seconds", std::chrono::duration<double>(departure.at - Clock::now()).count()},
                                      {"why", departure.why}};
    fmt::print("{}\n", line.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
  }
  return std::fflush(stdout) == 0 ? 0 : kFailed;
}

void say(const std::string& line) { std::fprintf(stderr, "xoe notice: %s\n", line.c_str()); }

template <class Look>
int watch(const NoticeOptions& options, Look look) {
  std::string said;
  while (true) {
    const auto departure = look();
    if (departure && *departure) return tell(**departure, options);
    if (departure && options.once) return kStays;
    if (!departure && said != departure.error().message()) say(said = departure.error().message());
    if (!departure && options.once) return kFailed;
    ::poll(nullptr, 0, static_cast<int>(options.every * 1000));
  }
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Waits until this machine is to be taken away: a spot instance, or one that is to be maintained.",
               "xoe notice");
  app.footer(kExamples);
  NoticeOptions options;
  app.add_option("SOURCE", options.source, "aws, gcp, azure, or file:PATH")->required();
  app.add_option("--endpoint", options.endpoint, "of the cloud's metadata server")->type_name("URL");
  app.add_option("--every", options.every, "seconds between two questions")->check(CLI::Range(0.1, 3600.0));
  app.add_flag("--once", options.once, "ask once");
  app.add_flag("--json", options.json, "print a JSON object in place of the line");
  if (const auto answer = tools::understand(app, argc, argv)) return tools::tell(*answer);
  constexpr std::string_view kFile = "file:";
  if (options.source.starts_with(kFile) && options.source.size() > kFile.size())
    return watch(options, [&] { return look_at_file(options.source.substr(kFile.size())); });
  const auto cloud = notice::parse_cloud(options.source);
  if (!cloud) {
    say(fmt::format("{}: expected aws, gcp, azure or file:PATH", options.source));
    return kUsageError;
  }
  const auto curl = load_curl();
  if (!curl) {
    say(curl.error().message());
    return kFailed;
  }
  notice::MetadataServer server(*cloud, options.endpoint, *curl);
  return watch(options, [&] { return server.ask(); });
}
