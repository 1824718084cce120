#include "backend/mpi/process.h"

#include <cstdlib>

#include "base/error.h"

namespace xoe::mpi {
namespace {

// What the handler of exit() finds; set once.
std::shared_ptr<Process>& own_process() {
  static auto* const process = new std::shared_ptr<Process>;  // outlives all handlers
  return *process;
}

std::string library_version() {
  char text[MPI_MAX_LIBRARY_VERSION_STRING] = {};
  int length = 0;
  MPI_Get_library_version(text, &length);
  std::string version(text, static_cast<std::size_t>(length));
  version = version.substr(0, version.find('\n'));  // MPICH: lines of "what:\tvalue"
  if (const auto more = version.find(", package"); more != version.npos) version.resize(more);  // Open MPI
  for (char& c : version)
    if (c == '\t') c = ' ';
  return version;
}

const char* level_name(int level) {
  switch (level) {
    case MPI_THREAD_MULTIPLE: return "thread multiple";
    case MPI_THREAD_SERIALIZED: return "thread serialized: collectives of several threads take turns";
    case MPI_THREAD_FUNNELED: return "thread funneled: only the thread that initialised MPI may use it";
    default: return "thread single: the process must have no other threads";
  }
}

}  // namespace

std::string mpi_text(int error) {
  char text[MPI_MAX_ERROR_STRING] = {};
  int length = 0;
  MPI_Error_string(error, text, &length);
  return std::string(text, static_cast<std::size_t>(length));
}

Result<std::shared_ptr<Process>> Process::start() {
  static std::mutex starting;
  const std::lock_guard lock(starting);
  if (own_process()) return own_process();
  int initialized = 0, finalized = 0, level = MPI_THREAD_SINGLE;
  MPI_Finalized(&finalized);
  if (finalized != 0) return failure(Code::kUnavailable, "mpi: {}", "this process has finalised MPI already");
  MPI_Initialized(&initialized);
  if (initialized != 0) {
    MPI_Query_thread(&level);
  } else if (const int error = MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &level); error != MPI_SUCCESS) {
    return failure(Code::kUnavailable, "mpi: cannot initialise MPI: {}", mpi_text(error));
  }
  const std::shared_ptr<Process> process(new Process);
  process->level_ = level;
  process->many_threads_ = level == MPI_THREAD_MULTIPLE;
  process->version_ = library_version();
  MPI_Comm_rank(MPI_COMM_WORLD, &process->rank_);
  MPI_Comm_size(MPI_COMM_WORLD, &process->size_);
  own_process() = process;
  if (initialized == 0) {
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    std::atexit(finalize);
  }
  return process;
}

void Process::finalize() {
  int finalized = 0;
  MPI_Finalized(&finalized);
  if (finalized == 0 && !own_process()->failed_.load()) MPI_Finalize();
}

Status Process::usable() {
  int finalized = 0;
  MPI_Finalized(&finalized);
  if (finalized == 0) return {};
  return failure(Code::kUnavailable, "mpi: {}", "MPI was finalised; Xoe's communicators must be destroyed before");
}

std::string Process::describe() const {
  return fmt::format("{}, {}, rank {} of {}", version_, level_name(level_), rank_, size_);
}

}  // namespace xoe::mpi
