// What a rank opened, and whether all ranks opened the same.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "xoe/status.h"

namespace xoe::data {

struct OpenedFile {
  std::string name;  // below the directory of the data set, which may have another path on each host
  std::uint64_t bytes = 0;
  std::int64_t records = -1;  // -1: not counted
};

struct OpenedData {
  std::string where;          // the directory or the patterns, for messages
  std::int64_t records = -1;  // of all files; -1: not counted
  std::int64_t batches = -1;  // an epoch, on each rank; -1: endless, or not counted
  std::uint64_t labels = 0;   // equal where classes and labels are, as far as names and tables give them
  std::uint64_t order = 0;    // equal for equal orders: ImageIterator::order_fingerprint()
  std::size_t files = 0;
  // A file by its number: in the same order wherever the files are the same.
  std::function<OpenedFile(std::size_t file)> file = {};
};

// Equal where the names, sizes and numbers of records of all files are.
std::uint64_t files_fingerprint(const OpenedData& data);

// Collective: gives the texts of all ranks, by rank.
using GatherTexts = std::function<Result<std::vector<std::string>>(std::string text)>;

// Collective: whether all ranks opened the same files, with the same sizes and numbers of records, for the same
// batches. Each rank passes what it opened, or why it could not. Every rank gets the same answer: the error of the
// lowest rank that has one, or `invalid_argument`, which names the first rank that differs from rank 0 and the first
// file in which it does. Ranks that differ send each other some twenty short texts, others one. Times of files are not
// compared.
Status compare_opened(const Result<OpenedData>& mine, int rank, const GatherTexts& gather);

}  // namespace xoe::data
