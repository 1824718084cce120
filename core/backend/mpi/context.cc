#include "core/backend/mpi/context.h"

#include <cstdlib>

#include "core/base/error.h"

namespace xoe::mpi {
namespace {

// For the handler of exit(); set once.
std::shared_ptr<Context>& process_context() {
  static auto* const context = new std::shared_ptr<Context>;  // outlives all handlers
  return *context;
}

std::string library_version() {
  char text[MPI_MAX_LIBRARY_VERSION_STRING] = {};
  int length = 0;
  MPI_Get_library_version(text, &length);
  std::string version(text, static_cast<std::size_t>(length));
  version = version.substr(0, version.find('\n'));  // MPICH: lines of "what:\tvalue"
  if (const auto more = version.find(", package"); more != std::string::npos) version.resize(more);  // Open MPI
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

Result<std::shared_ptr<Context>> Context::start() {
  static std::mutex starting;
  const std::lock_guard lock(starting);
  if (process_context()) return process_context();
  int initialized = 0, finalized = 0, level = MPI_THREAD_SINGLE;
  MPI_Finalized(&finalized);
  if (finalized != 0) return failure(Code::kUnavailable, "mpi: {}", "this process has finalised MPI already");
  MPI_Initialized(&initialized);
  if (initialized != 0) {
    MPI_Query_thread(&level);
  } else if (const int error = MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &level); error != MPI_SUCCESS) {
    return failure(Code::kUnavailable, "mpi: cannot initialise MPI: {}", mpi_text(error));
  }
  const std::shared_ptr<Context> context(new Context);
  context->level_ = level;
  context->many_threads_ = level == MPI_THREAD_MULTIPLE;
  context->version_ = library_version();
  MPI_Comm_rank(MPI_COMM_WORLD, &context->rank_);
  MPI_Comm_size(MPI_COMM_WORLD, &context->size_);
  process_context() = context;
  if (initialized == 0) {
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    std::atexit(finalize);
  }
  return context;
}

void Context::finalize() {
  int finalized = 0;
  MPI_Finalized(&finalized);
  if (finalized == 0 && !process_context()->failed_.load()) MPI_Finalize();
}

Status Context::usable() {
  int finalized = 0;
  MPI_Finalized(&finalized);
  if (finalized == 0) return {};
  return failure(Code::kUnavailable, "mpi: {}", "MPI was finalised; Xoe's communicators must be destroyed before");
}

std::string Context::describe() const {
  return fmt::format("{}, {}, rank {} of {}", version_, level_name(level_), rank_, size_);
}

}  // namespace xoe::mpi
