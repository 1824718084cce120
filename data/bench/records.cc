// How fast TFRecord files are read from the page cache, every CRC checked; bytes per CPU-second count.
//   xoe_bench_records [--benchmark_...] [FILE...]   without files it makes one of 210 MB in the temporary directory
#include <benchmark/benchmark.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <vector>

#include "data/records/crc32c.h"
#include "data/stages/random.h"
#include "xoe/data/record_writer.h"
#include "xoe/data/records.h"

namespace {

using namespace xoe::data;

std::vector<std::string> files;

std::string random_bytes(std::size_t count) {
  Random random(count);
  std::string bytes(count, '\0');
  for (char& byte : bytes) byte = static_cast<char>(random.bits());
  return bytes;
}

void make_file(const std::string& path, Compression compression) {
  const std::string data = random_bytes(62000);
  auto writer = RecordWriter::create(path, compression).value();
  // 4,000 records of 42 to 62 KB, as photographs have.
  Random random(7);
  for (int i = 0; i < 4000; ++i)
    if (!writer.write(std::string_view(data).substr(0, 42000 + static_cast<std::size_t>(random.integer(0, 20000)))))
      std::abort();
  if (!writer.finish()) std::abort();
}

void read_files(benchmark::State& state) {
  std::int64_t bytes = 0;
  RecordOptions options;
  options.block_bytes = static_cast<std::size_t>(state.range(0)) << 10;
  for (auto _ : state)
    for (const std::string& file : files) {
      auto iterator = read_records(file, options)->iterate(0).value();
      for (auto record = iterator->next().value(); record; record = iterator->next().value()) {
        benchmark::DoNotOptimize(record->data.data());
        bytes += static_cast<std::int64_t>(record->data.size());
      }
    }
  state.SetBytesProcessed(bytes);
}
BENCHMARK(read_files)->Name("read_records/block_KiB")->Arg(64)->Arg(128)->Arg(256)->Arg(512)->Arg(1024);

template <auto Crc>
void checksum(benchmark::State& state) {
  const std::string data = random_bytes(static_cast<std::size_t>(state.range(0)));
  for (auto _ : state) benchmark::DoNotOptimize(Crc(data));
  state.SetBytesProcessed(state.iterations() * state.range(0));
}
BENCHMARK(checksum<crc32c>)->Name("crc32c")->Arg(100)->Arg(1000)->Arg(50000);
BENCHMARK(checksum<crc32c_hardware>)->Name("crc32c/three_chains")->Arg(100)->Arg(1000)->Arg(50000);
BENCHMARK(checksum<crc32c_portable>)->Name("crc32c/tables")->Arg(50000);

}  // namespace

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  files.assign(argv + 1, argv + argc);
  const std::string made =
      (std::filesystem::temp_directory_path() / ("xoe-bench-records-" + std::to_string(::getpid()))).string();
  if (files.empty()) {
    make_file(made, Compression::kNone);
    files.push_back(made);
  }
  benchmark::RunSpecifiedBenchmarks();
  std::filesystem::remove(made);
  return 0;
}
