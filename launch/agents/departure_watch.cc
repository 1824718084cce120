#include "launch/agents/departure_watch.h"

#include <filesystem>
#include <utility>

#include "core/base/error.h"
#include "core/base/text.h"
#include "launch/notice/notice_line.h"

namespace xoe::launch {
namespace {

constexpr std::size_t kMostPrinted = std::size_t{64} << 10;

}  // namespace

DepartureWatch::DepartureWatch(const std::vector<std::string>& sources, const remote::Inherited& inherited) {
  std::error_code error;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", error).parent_path() / "xoe-notice";
  for (const std::string& source : sources) {
    Source& one = sources_.emplace_back(Source{.name = source, .child = {}});
    auto child = remote::ChildProcess::start({program.string(), source}, inherited);
    if (child)
      one.child.emplace(std::move(*child));
    else
      problems_.push_back({.why = fmt::format("--notice {}: {}", source, child.error().message())});
  }
}

void DepartureWatch::add_to(std::vector<pollfd>& polled) const {
  for (const Source& source : sources_)
    if (source.child)
      for (const int fd : {source.child->out.get(), source.child->err.get()})
        polled.push_back({.fd = fd, .events = POLLIN, .revents = 0});
}

std::vector<DepartureWatch::Word> DepartureWatch::pump() {
  auto words = std::exchange(problems_, {});
  for (Source& source : sources_)
    if (source.child) hear(source, words);
  return words;
}

void DepartureWatch::hear(Source& source, std::vector<Word>& words) {
  for (auto* const from : {&source.child->out, &source.child->err})
    while (from->valid()) {
      const std::string bytes = remote::read_some(*from);
      if (bytes.empty()) break;
      (from == &source.child->out ? source.out : source.err) += bytes;
    }
  for (auto end = source.err.find('\n', source.told); end != std::string::npos;
       end = source.err.find('\n', source.told)) {
    words.push_back({.why = source.err.substr(source.told, end - source.told)});
    source.told = end + 1;
  }
  source.err.erase(0, std::exchange(source.told, 0));
  const bool ended = !source.child->out.valid();
  if (const auto end = source.out.find('\n'); end != std::string::npos) {
    if (const auto line = notice::parse_notice_line(source.out.substr(0, end)))
      words.push_back({.left = line->left, .why = line->why});
  } else if (ended) {
    words.push_back({.why = fmt::format("--notice {}: `xoe notice` has ended without a word", source.name)});
  }
  if (ended || source.out.size() > kMostPrinted || source.err.size() > kMostPrinted) source.child.reset();
}

}  // namespace xoe::launch
