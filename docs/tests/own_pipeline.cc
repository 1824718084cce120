// A block of a document takes the place of BLOCK.
// clang-format off
// A program with a pipeline of its own; a block of a document takes the place of the line below.
struct Sample {
  int size;
};
xoe::Result<Sample> parse(const xoe::data::Record& record);

void read(int rank, int size, std::uint64_t seed) {
  BLOCK
}
