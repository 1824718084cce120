#include <algorithm>
#include <array>
#include <charconv>

#include "core/base/error.h"
#include "data/files/foreign_bytes.h"
#include "data/files/tar.h"

namespace xoe::data {

// The fields of a header block that are used; POSIX.1-2017, pax, "ustar Interchange Format".
struct TarReader::Header {
  std::string name;
  std::uint64_t bytes = 0;
  char type = '0';
  bool more = false;  // of a sparse file: blocks of its map follow
};

namespace {

constexpr std::uint64_t kReadBytes = 256 * kTarBlock;
constexpr std::size_t kNameBytes = 100;
constexpr std::uint64_t kMaxMemberBytes = std::uint64_t{1} << 33;  // what 11 octal digits hold
constexpr std::uint64_t kMaxExtraBytes = std::uint64_t{1} << 20;   // of a long name or of pax records

constexpr std::uint64_t kMaxOffset = std::uint64_t{1} << 62;  // where the size of an archive is not known

using TarBlock = std::array<char, kTarBlock>;

std::string_view field(const TarBlock& block, std::size_t at, std::size_t bytes) {
  const std::string_view whole(block.data() + at, bytes);
  return whole.substr(0, std::min(whole.find('\0'), bytes));
}

// Octal digits between white space, or, where the first bit is set, a big-endian number (GNU). A blank field is 0, as
// in the headers of volume labels.
std::optional<std::uint64_t> number(const TarBlock& block, std::size_t at, std::size_t bytes) {
  constexpr std::string_view kWhite = " \t\n\r\v\f";
  std::uint64_t value = 0;
  if ((block[at] & '\x80') != 0) {
    for (std::size_t i = 1; i < bytes; ++i) {
      if (value >> 55 != 0) return std::nullopt;
      value = value << 8 | static_cast<std::uint8_t>(block[at + i]);
    }
    return value;
  }
  std::string_view digits = field(block, at, bytes);
  digits.remove_prefix(std::min(digits.find_first_not_of(kWhite), digits.size()));
  digits = digits.substr(0, digits.find_last_not_of(kWhite) + 1);
  if (digits.empty()) return 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value, 8);
  if (error != std::errc() || end != digits.data() + digits.size()) return std::nullopt;
  return value;
}

// The sum of unsigned bytes, or of signed ones, as the programs of Sun and NeXT wrote. A blank field is no checksum.
bool checksum_fits(const TarBlock& block) {
  constexpr std::size_t kAt = 148;
  constexpr std::size_t kBytes = 8;
  std::int64_t sum = kBytes * ' ';
  std::int64_t signed_sum = sum;
  for (std::size_t i = 0; i < block.size(); ++i) {
    if (i >= kAt && i < kAt + kBytes) continue;
    sum += static_cast<std::uint8_t>(block[i]);
    signed_sum += static_cast<std::int8_t>(block[i]);
  }
  const auto stored = static_cast<std::int64_t>(number(block, kAt, kBytes).value_or(0));
  return stored > 0 && (stored == sum || stored == signed_sum);
}

bool is_zero(const TarBlock& block) {
  return std::all_of(block.begin(), block.end(), [](char byte) { return byte == 0; });
}

// Headers that describe the next member: long names and pax records, of which Solaris's are 'X'.
bool is_extra(char type) { return type == 'L' || type == 'K' || type == 'x' || type == 'X' || type == 'g'; }

// A folder, with GNU's list of what was in it ('D'), or the label of the volume ('V'): none of them is a member to
// read. Old tar has a file whose name ends with a slash for a folder.
bool is_passed_over(char type, std::string_view name) {
  return type == '5' || type == 'D' || type == 'V' || (type == '\0' && name.ends_with('/'));
}

// Of what is no regular file; empty: it is one, as '7', a file that lies in one piece, is on every system of today.
std::string_view kind_of_member(char type) {
  switch (type) {
    case '\0':
    case '0':
    case '7': return {};
    case '1': return "a hard link";
    case '2': return "a symbolic link";
    case '3':
    case '4': return "a device";
    case '6': return "a pipe";
    case 'S': return "a sparse file";
    default: return "no regular file";
  }
}
// Members without data, whatever their headers say: links, devices, folders, pipes.
bool is_bare(char type) { return type >= '1' && type <= '6'; }

std::uint64_t padded(std::uint64_t bytes) { return (bytes + kTarBlock - 1) / kTarBlock * kTarBlock; }

}  // namespace

// Where a GZIP file ends within a member, that shows only now.
Result<std::optional<TarReader::Header>> TarReader::end_of_file() const {
  if (const auto size = bytes_->size(); size && *size < data_end_)
    return failure(Code::kDataLoss, "truncated: the last {} bytes of the member before are missing", data_end_ - *size);
  return std::nullopt;
}

Result<std::optional<TarReader::Header>> TarReader::read_header() {
  TarBlock block;
  XOE_ASSIGN(const std::size_t got, bytes_->read_at(offset_, block.data(), block.size()));
  if (got == 0) return end_of_file();
  const std::string_view kind = offset_ == 0 ? foreign_kind_of({block.data(), got}) : std::string_view();
  if (got < kTarBlock)
    return failure(Code::kDataLoss, "truncated: {} of a header's {} bytes are there{}{}", got, kTarBlock,
                   kind.empty() ? "" : "; they are those of ", kind);
  if (is_zero(block)) {
    XOE_TRY(check_end());
    return std::nullopt;
  }
  if (!checksum_fits(block))
    return failure(Code::kDataLoss, "the checksum of its header is wrong{}{}",
                   kind.empty() ? "" : "; its bytes are those of ", kind);
  Header header;
  const auto bytes = number(block, 124, 12);
  if (!bytes) return failure(Code::kDataLoss, "its size is no number");
  header.type = block[156];
  header.bytes = is_extra(header.type) ? *bytes : is_bare(header.type) ? 0 : long_bytes_.value_or(*bytes);
  header.more = header.type == 'S' && block[482] != 0;
  const bool posix = std::string_view(block.data() + 257, 6) == std::string_view("ustar\0", 6);
  const std::string_view prefix = posix ? field(block, 345, 155) : std::string_view();
  header.name = prefix.empty() ? std::string(field(block, 0, 100)) : fmt::format("{}/{}", prefix, field(block, 0, 100));
  const auto size = bytes_->size();
  if (header.bytes > size.value_or(kMaxOffset) - offset_ - kTarBlock)
    return failure(Code::kDataLoss, "truncated: {} of its {} bytes are there",
                   size.value_or(kMaxOffset) - offset_ - kTarBlock, header.bytes);
  return header;
}

// Concatenated archives, or a hole in the middle, must not pass for the end.
Status TarReader::check_end() {
  std::string bytes;
  for (std::uint64_t at = offset_;; at += bytes.size()) {
    bytes.resize(kReadBytes);
    XOE_ASSIGN(const std::size_t got, bytes_->read_at(at, bytes.data(), bytes.size()));
    bytes.resize(got);
    if (got == 0) return {};
    if (const std::size_t more = bytes.find_first_not_of('\0'); more != std::string::npos) {
      good_from_ = (at + more) / kTarBlock * kTarBlock;
      return failure(Code::kDataLoss, "zeros as at the end of an archive, but other bytes from byte {} on", at + more);
    }
  }
}

Result<std::string> TarReader::read_extra(const Header& header) {
  if (header.bytes > kMaxExtraBytes)
    return failure(Code::kDataLoss, "a name or pax header of {} bytes; at most {} are read", header.bytes,
                   kMaxExtraBytes);
  std::string data(header.bytes, '\0');
  XOE_ASSIGN(const std::size_t got, bytes_->read_at(offset_ + kTarBlock, data.data(), data.size()));
  if (got == data.size()) return data;
  return failure(Code::kDataLoss, "truncated: {} of its {} bytes are there", got, data.size());
}

Status TarReader::read(const TarMember& member, char* to) const {
  XOE_ASSIGN(const std::size_t got, bytes_->read_at(member.offset, to, member.bytes));
  if (got == member.bytes) return {};
  return failure(Code::kDataLoss, "truncated: {} of its {} bytes are there", got, member.bytes);
}

// Moves behind a member, or to the end where its padding is missing.
void TarReader::pass(const Header& header) {
  data_end_ = offset_ + kTarBlock + header.bytes;
  offset_ =
      std::min(offset_ + kTarBlock + padded(header.bytes), std::max(bytes_->size().value_or(kMaxOffset), data_end_));
}

// Records of the form "LENGTH KEY=VALUE\n".
Status TarReader::parse_pax(std::string_view records) {
  while (!records.empty()) {
    std::size_t length = 0;
    const auto [end, error] = std::from_chars(records.data(), records.data() + records.size(), length);
    const auto digits = static_cast<std::size_t>(end - records.data());
    if (error != std::errc() || length > records.size() || length < digits + 2 || records[digits] != ' ' ||
        records[length - 1] != '\n')
      return failure(Code::kDataLoss, "its pax records are damaged");
    const std::string_view record = records.substr(digits + 1, length - digits - 2);
    const std::size_t equals = record.find('=');
    if (equals == std::string_view::npos) return failure(Code::kDataLoss, "its pax records are damaged");
    const std::string_view value = record.substr(equals + 1);
    if (record.starts_with("path=") && !sparse_) long_name_ = value;
    if (record.starts_with("GNU.sparse.")) sparse_ = true;
    if (record.starts_with("GNU.sparse.name=")) long_name_ = value;  // path= has a made-up one
    if (record.starts_with("size=")) {
      std::uint64_t bytes = 0;
      const auto [last, wrong] = std::from_chars(value.data(), value.data() + value.size(), bytes);
      if (wrong != std::errc() || last != value.data() + value.size())
        return failure(Code::kDataLoss, "its pax size is no number");
      long_bytes_ = bytes;
    }
    records.remove_prefix(length);
  }
  return {};
}

Result<std::optional<TarMember>> TarReader::next() {
  for (;;) {
    XOE_ASSIGN(auto header, read_header());
    if (!header) return std::nullopt;
    switch (header->type) {
      case 'L': {  // the next member's name
        XOE_ASSIGN(const std::string data, read_extra(*header));
        long_name_ = data.substr(0, data.find('\0'));
        break;
      }
      case 'x':
      case 'X': {
        XOE_ASSIGN(const std::string data, read_extra(*header));
        long_bytes_.reset();
        sparse_ = false;
        XOE_TRY(parse_pax(data));
        break;
      }
      case 'K':  // the next member's target, if that is a link
      case 'g': break;
      default: {
        if (header->more) XOE_TRY(pass_sparse_map());
        const char type = header->type;
        TarMember member = take_member(std::move(*header));
        if (is_passed_over(type, member.name)) continue;
        return member;
      }
    }
    pass(*header);
  }
}

// With the name and the size of the extra headers in front of it.
TarMember TarReader::take_member(Header header) {
  TarMember member{.name = long_name_.empty() ? std::move(header.name) : std::move(long_name_),
                   .offset = offset_ + kTarBlock,
                   .bytes = header.bytes,
                   .instead = sparse_ ? kind_of_member('S') : kind_of_member(header.type)};
  long_name_.clear();
  long_bytes_.reset();
  sparse_ = false;
  pass(header);
  return member;
}

// GNU's, which lies between a sparse file's header and its data: moves to the last block of it.
Status TarReader::pass_sparse_map() {
  constexpr std::size_t kMore = 504;
  for (TarBlock block = {};;) {
    XOE_ASSIGN(const std::size_t got, bytes_->read_at(offset_ + kTarBlock, block.data(), block.size()));
    if (got < kTarBlock) return failure(Code::kDataLoss, "truncated within the map of a sparse file");
    offset_ += kTarBlock;
    if (block[kMore] == 0) return {};
  }
}

Status TarReader::resynchronise() {
  long_name_.clear();
  long_bytes_.reset();
  sparse_ = false;
  data_end_ = 0;
  std::string blocks;
  for (offset_ = std::max(padded(offset_ + 1), good_from_);; offset_ += padded(blocks.size())) {
    blocks.resize(kReadBytes);
    XOE_ASSIGN(const std::size_t got, bytes_->read_at(offset_, blocks.data(), blocks.size()));
    blocks.resize(got);
    for (std::size_t at = 0; at + kTarBlock <= blocks.size(); at += kTarBlock) {
      TarBlock block;
      std::copy_n(blocks.data() + at, kTarBlock, block.data());
      if (!is_zero(block) && checksum_fits(block)) {
        offset_ += at;
        return {};
      }
    }
    if (got < kReadBytes) break;
  }
  offset_ = std::max(offset_, bytes_->size().value_or(offset_));
  return {};
}

Result<TarWriter> TarWriter::create(std::string path) {
  XOE_ASSIGN(OutputFile file, OutputFile::create(std::move(path)));
  return TarWriter(std::move(file));
}

Status TarWriter::write_member(std::string_view name, char type, std::string_view data) {
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
  if (data.size() >= kMaxMemberBytes)
    return failure(Code::kUnsupported, "{}: {} has {} bytes; less than 8 GiB are written", file_.path(), name,
                   data.size());
  if (name.size() > kNameBytes) {
    // "LENGTH path=NAME\n", where the length counts its own digits.
    const std::size_t rest = name.size() + 7;
    std::size_t length = rest + 1;
    while (std::to_string(length).size() + rest != length) ++length;
    XOE_TRY(write_member("pax", 'x', fmt::format("{} path={}\n", length, name)));
  }
  return write_member(name, '0', data);
}

Status TarWriter::finish() {
  XOE_TRY(file_.write(std::string(2 * kTarBlock, '\0')));
  return file_.finish();
}

}  // namespace xoe::data
