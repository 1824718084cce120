#include "data/ledger/ledger.h"

#include <fcntl.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <optional>
#include <system_error>

#include "core/base/error.h"
#include "core/base/text.h"

namespace xoe::data {
namespace {

constexpr std::string_view kSuffix = ".ledger";
constexpr int kVersion = 2;
constexpr int kVersionWithoutRun = 1;
constexpr int kMostRanks = 1 << 20;
constexpr std::size_t kCheckBytes = 10;  // " #" and eight digits

std::uint32_t checksum_of(std::string_view text) {
  return static_cast<std::uint32_t>(
      ::crc32(0, reinterpret_cast<const Bytef*>(text.data()), static_cast<uInt>(text.size())));
}

// The fields of a line, one after the other.
class LineFields {
 public:
  explicit LineFields(std::string_view line) : rest_(line) {}

  std::string_view word() {
    const std::size_t end = std::min(rest_.find(' '), rest_.size());
    const std::string_view word = rest_.substr(0, end);
    rest_.remove_prefix(std::min(end + 1, rest_.size()));
    return word;
  }
  // Within [least, most]; otherwise the line is not good.
  template <class Number>
  Number number(Number least = 0, Number most = std::numeric_limits<Number>::max(), int base = 10) {
    const std::string_view text = word();
    Number value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
    if (error == std::errc() && end == text.data() + text.size() && value >= least && value <= most) return value;
    good_ = false;
    return least;
  }
  bool empty() const noexcept { return rest_.empty(); }
  bool good() const noexcept { return good_; }

 private:
  std::string_view rest_;
  bool good_ = true;
};

// False: the line is not one of a ledger.
bool parse_line(std::string_view line, bool first, std::string_view name, LedgerLines& lines) {
  LineFields fields(line);
  const std::string_view kind = fields.word();
  if (first != (kind == "ledger")) return false;
  if (kind == "ledger") {
    const int version = fields.number<int>(kVersionWithoutRun, kVersion);
    LedgerData data{.records = fields.number<std::int64_t>()};
    data.fingerprint = fields.number<std::uint64_t>(0, UINT64_MAX, 16);
    if (version != kVersionWithoutRun) data.run = fields.number<std::uint64_t>(0, UINT64_MAX, 16);
    data.told = name;
    lines.data.push_back(std::move(data));
  } else if (kind == "world") {
    LedgerWorld world{.number = fields.number<std::int64_t>(1), .rank = fields.number<int>(0, kMostRanks)};
    world.size = fields.number<int>(world.rank + 1, kMostRanks + 1);
    world.first_step = fields.number<std::int64_t>(1);
    world.told = name;
    lines.worlds.push_back(std::move(world));
  } else if (kind == "step") {
    LedgerStep step{.world = fields.number<std::int64_t>(1), .step = fields.number<std::int64_t>(1)};
    step.rank = fields.number<int>();
    step.epoch = fields.number<std::int64_t>();
    step.left = fields.number<std::int64_t>();
    while (fields.good() && !fields.empty()) step.records.push_back(fields.number<std::int64_t>());
    lines.steps.push_back(std::move(step));
  } else if (kind == "done") {
    LedgerDone done{.world = fields.number<std::int64_t>(1)};
    done.step = fields.number<std::int64_t>(1);
    lines.done.push_back(done);
  } else {
    return false;
  }
  return fields.good() && fields.empty();
}

// The line without its checksum; nullopt: it has not the right one.
std::optional<std::string_view> checked(std::string_view line) {
  if (line.size() <= kCheckBytes) return std::nullopt;
  const std::string_view text = line.substr(0, line.size() - kCheckBytes);
  return line.substr(text.size()) == fmt::format(" #{:08x}", checksum_of(text)) ? std::optional(text) : std::nullopt;
}

Result<std::vector<std::filesystem::path>> ledger_files(const std::string& folder) {
  std::vector<std::filesystem::path> files;
  std::error_code error;
  for (auto entry = std::filesystem::directory_iterator(folder, error);
       !error && entry != std::filesystem::directory_iterator(); entry.increment(error))
    if (entry->path().extension() == kSuffix) files.push_back(entry->path());
  if (error) return failure(Code::kUnavailable, "{}: cannot read the folder: {}", folder, error.message());
  std::ranges::sort(files);
  return files;
}

Status read_file(const std::filesystem::path& path, LedgerLines& lines) {
  std::ifstream file(path, std::ios::binary);
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  if (!file) return failure(Code::kUnavailable, "{}: cannot be read", path.string());
  return parse_ledger(text, path.string(), lines);
}

}  // namespace

std::string ledger_checked(std::string text) {
  text += fmt::format(" #{:08x}\n", checksum_of(text));
  return text;
}

std::string ledger_line(const LedgerData& data) {
  return ledger_checked(fmt::format("ledger {} {} {:x} {:x}", kVersion, data.records, data.fingerprint, data.run));
}
std::string ledger_line(const LedgerWorld& world) {
  return ledger_checked(fmt::format("world {} {} {} {}", world.number, world.rank, world.size, world.first_step));
}
std::string ledger_line(const LedgerStep& step) {
  std::string text = fmt::format("step {} {} {} {} {}", step.world, step.step, step.rank, step.epoch, step.left);
  for (const std::int64_t record : step.records) {
    text += ' ';
    text += std::to_string(record);
  }
  return ledger_checked(std::move(text));
}
std::string ledger_line(const LedgerDone& done) {
  return ledger_checked(fmt::format("done {} {}", done.world, done.step));
}

Result<LedgerWriter> LedgerWriter::open(const std::string& folder, const LedgerData& data) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) return failure(Code::kUnavailable, "{}: cannot make the folder: {}", folder, error.message());
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  char host[256] = {};
  if (::gethostname(host, sizeof host - 1) != 0) host[0] = '\0';
  std::string path = fmt::format("{}/{}-{}-{}{}", folder, host, ::getpid(),
                                 std::chrono::duration_cast<std::chrono::microseconds>(now).count(), kSuffix);
  Fd file(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0644));
  if (!file.valid()) return failure(Code::kUnavailable, "{}: cannot be written: {}", path, errno_text(errno));
  LedgerWriter writer(std::move(file), std::move(path));
  XOE_TRY(writer.append(ledger_line(data)));
  return writer;
}

Status LedgerWriter::world(const LedgerWorld& world) { return append(ledger_line(world)); }
Status LedgerWriter::step(const LedgerStep& step) { return append(ledger_line(step)); }
Status LedgerWriter::done(const LedgerDone& done) { return append(ledger_line(done)); }

// Once write() has returned, the line survives this process.
Status LedgerWriter::append(std::string line) {
  std::string_view rest = line;
  while (!rest.empty()) {
    const ::ssize_t written = ::write(file_.get(), rest.data(), rest.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return failure(Code::kUnavailable, "{}: cannot be written: {}", path_, errno_text(errno));
    rest.remove_prefix(static_cast<std::size_t>(written));
  }
  return {};
}

Status parse_ledger(std::string_view text, std::string_view name, LedgerLines& lines) {
  std::int64_t number = 0;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    if (end == std::string_view::npos) return {};
    ++number;
    const auto line = checked(text.substr(0, end));
    if (!line)
      return failure(Code::kDataLoss, "{}: line {} is damaged: its checksum is not that of the line", name, number);
    if (!parse_line(*line, number == 1, name, lines))
      return failure(Code::kDataLoss, "{}: line {} does not belong to a ledger of version {} or before", name, number,
                     kVersion);
    text.remove_prefix(end + 1);
  }
  return {};
}

Result<LedgerLines> read_ledger(std::span<const std::string> folders) {
  LedgerLines lines;
  for (const std::string& folder : folders) {
    XOE_ASSIGN(const auto files, ledger_files(folder));
    if (files.empty()) return failure(Code::kUnavailable, "{} holds no ledger: no file ends with {}", folder, kSuffix);
    for (const auto& file : files) XOE_TRY(read_file(file, lines));
  }
  for (const LedgerData& data : lines.data)
    if (!data.same_data(lines.data.front()))
      return failure(Code::kInvalidArgument,
                     "{}: the files are of different data or orders of them ({} and {} records); give one training's",
                     folders.front(), lines.data.front().records, data.records);
  return lines;
}

Result<LedgerFolder> look_at_ledger(const std::string& folder) {
  LedgerFolder found;
  std::error_code error;
  if (!std::filesystem::exists(folder, error)) return found;
  XOE_ASSIGN(const auto files, ledger_files(folder));
  for (const auto& file : files) {
    LedgerLines lines;
    XOE_TRY(read_file(file, lines));
    for (const LedgerWorld& world : lines.worlds)
      if (world.number > found.last_world)
        found = {.last_world = world.number, .file = file.string(), .run = lines.data.front().run};
  }
  return found;
}

}  // namespace xoe::data
