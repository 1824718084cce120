#include <algorithm>
#include <array>

#include "base/error.h"
#include "data/files/tar.h"

namespace xoe::data {
namespace {

constexpr std::size_t kNameBytes = 100;
constexpr std::uint64_t kMostOctal = std::uint64_t{1} << 33;

}  // namespace

Result<TarWriter> TarWriter::create(std::string path) {
  XOE_ASSIGN(OutputFile file, OutputFile::create(std::move(path)));
  return TarWriter(std::move(file));
}

Status TarWriter::put(std::string_view name, char type, std::string_view data) {
  std::string block(kTarBlock, '\0');
  const auto set = [&block](std::size_t at, std::string_view value) { block.replace(at, value.size(), value); };
  set(0, name.substr(0, kNameBytes));
  set(100, "0000644");
  set(108, "0000000");
  set(116, "0000000");
  set(124, fmt::format("{:011o}", data.size()));
  set(136, "00000000000");
  set(148, "        ");
  block[156] = type;
  set(257, std::string_view("ustar\00000", 8));
  std::uint64_t sum = 0;
  for (const char byte : block) sum += static_cast<std::uint8_t>(byte);
  set(148, fmt::format("{:06o}", sum));
  block[154] = '\0';
  XOE_TRY(file_.write(block));
  XOE_TRY(file_.write(data));
  const std::size_t padding = (kTarBlock - data.size() % kTarBlock) % kTarBlock;
  return file_.write(std::string(padding, '\0'));
}

Status TarWriter::write(std::string_view name, std::string_view data) {
  if (name.empty() || name.find('\0') != std::string_view::npos)
    return failure(Code::kInvalidArgument, "{}: a member's name of {} bytes that is empty or has a zero byte",
                   file_.path(), name.size());
  if (data.size() >= kMostOctal)
    return failure(Code::kUnsupported, "{}: {} has {} bytes; less than 8 GiB are written", file_.path(), name,
                   data.size());
  if (name.size() > kNameBytes) {
    // "LENGTH path=NAME\n", where the length counts its own digits.
    const std::size_t rest = name.size() + 7;
    std::size_t length = rest + 1;
    while (std::to_string(length).size() + rest != length) ++length;
    XOE_TRY(put("pax", 'x', fmt::format("{} path={}\n", length, name)));
  }
  return put(name, '0', data);
}

Status TarWriter::finish() {
  XOE_TRY(file_.write(std::string(2 * kTarBlock, '\0')));
  return file_.finish();
}

}  // namespace xoe::data
