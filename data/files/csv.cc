#include "data/files/csv.h"

#include <algorithm>

#include "core/base/error.h"
#include "data/files/listing.h"

namespace xoe::data {
namespace {

// An empty field of one byte in the text takes 32 in memory.
constexpr std::size_t kMaxRowFields = 65536;
constexpr std::size_t kMaxRowBytes = std::size_t{1} << 20;

}  // namespace

CsvReader::CsvReader(std::string_view text) : rest_(text) {
  if (rest_.starts_with(kByteOrderMark)) rest_.remove_prefix(kByteOrderMark.size());
}

Result<bool> CsvReader::next(std::vector<std::string>& fields) {
  fields.clear();
  line_ = next_line_;
  if (rest_.empty()) return false;
  const std::size_t whole = rest_.size();
  for (bool more = true; more;) {
    if (fields.size() == kMaxRowFields) return failure(Code::kDataLoss, "a row of more than {} fields", kMaxRowFields);
    XOE_ASSIGN(more, read_field(fields.emplace_back()));
    if (whole - rest_.size() > kMaxRowBytes)
      return failure(Code::kDataLoss, "a row of more than {} bytes", kMaxRowBytes);
  }
  return true;
}

Result<bool> CsvReader::read_field(std::string& field) {
  if (rest_.starts_with('"')) {
    XOE_TRY(read_quoted(field));
  } else {
    const std::size_t end = std::min(rest_.find_first_of(",\n\""), rest_.size());
    if (end < rest_.size() && rest_[end] == '"')
      return failure(Code::kDataLoss, "a quote within a field that does not begin with one");
    field = rest_.substr(0, end);
    rest_.remove_prefix(end);
    if ((rest_.empty() || rest_.front() == '\n') && field.ends_with('\r')) field.pop_back();
  }
  if (rest_.empty()) return false;
  const bool more = rest_.front() == ',';
  if (!more) ++next_line_;
  rest_.remove_prefix(1);
  return more;
}

Status CsvReader::read_quoted(std::string& field) {
  rest_.remove_prefix(1);
  for (;;) {
    const std::size_t quote = rest_.find('"');
    if (quote == std::string_view::npos) return failure(Code::kDataLoss, "a quote is not closed");
    const std::string_view part = rest_.substr(0, quote);
    next_line_ += std::count(part.begin(), part.end(), '\n');
    field += part;
    rest_.remove_prefix(quote + 1);
    if (!rest_.starts_with('"')) break;
    field += '"';
    rest_.remove_prefix(1);
  }
  if (rest_.starts_with("\r\n")) rest_.remove_prefix(1);
  if (!rest_.empty() && rest_.front() != ',' && rest_.front() != '\n')
    return failure(Code::kDataLoss, "text behind a closing quote");
  return {};
}

}  // namespace xoe::data
