// A mock of a machine with GPUs, CUDA, NCCL and NVML: memory is this process's, streams are threads that work in order,
// and communicators join threads of the test and really reduce. It serves the tables of functions of core/drivers.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "core/drivers/cuda/cuda.h"
#include "core/drivers/nccl/nccl.h"
#include "core/tests/drivers/mock_nvml.h"

namespace xoe::testing {

// What goes wrong on one GPU.
struct MockFaults {
  NcclResult launch = NcclResult::kSuccess;       // of what ends a group
  NcclResult registering = NcclResult::kSuccess;  // of buffers
  NcclResult joining = NcclResult::kSuccess;      // of communicators with a rank there
  CudaError allocating = CudaError::kSuccess;
  CudaError querying = CudaError::kSuccess;
  bool joins_never = false;  // peers wait for it
  bool stays_away = false;   // its collectives are launched, and never meet those of its peers
  bool blocks = false;       // what ends a group of a blocking communicator comes back when that is aborted
  std::chrono::milliseconds copies_for{0};
};

struct MockCall {
  int device;
  std::string name;
  const void* stream;  // nullptr: the default one
  const void* object;  // the event
};

struct MockStream {
  int device = 0;
  bool alive = true, closing = false, busy = false;
  std::deque<std::function<void()>> work = {};
  std::thread thread = {};
};

struct MockEvent {
  bool alive = true;
  std::shared_ptr<bool> mark = {};  // what was recorded last; true: reached
};

struct MockClique;

struct MockComm {
  std::shared_ptr<MockClique> clique = {};
  int rank = 0, device = 0;
  bool blocking = true, joining = true, finalized = false, aborted = false, destroyed = false;
  int in_progress = 0;  // so many more answers
  NcclResult error = NcclResult::kSuccess;
  std::uint64_t next = 0;  // number of its next collective
  std::map<int, double> factors = {};
  std::set<void*> registered = {};

  bool alive() const { return !aborted && !destroyed; }
};

// One call of a group.
struct MockLaunch {
  enum class Kind { kAllReduce, kBroadcast, kReduce, kAllGather, kReduceScatter, kSend, kRecv };
  Kind kind;
  const void* in;
  void* out;
  std::size_t count;
  NcclType type;
  NcclOp op;
  int peer;  // root too
  MockComm* comm;
  CudaStream stream;
  double factor = 1;
  std::uint64_t number = 0;
};

struct MockMessage {
  const void* data;
  std::size_t bytes;
  bool taken = false;
};

// The communicators with one number.
struct MockClique {
  struct Meeting {
    std::vector<const MockLaunch*> launches;
    std::size_t arrived = 0;
    bool done = false;
  };
  std::size_t size = 0, joined = 0, finalized = 0;
  NcclResult refusal = NcclResult::kSuccess;  // what its members are told instead of joining
  std::vector<MockComm*> members = {};
  std::map<std::uint64_t, Meeting> meetings = {};
  std::map<std::pair<int, int>, std::deque<std::shared_ptr<MockMessage>>> mail = {};
};

// One instance at a time, which the tables' functions find. Tests set its public members before threads use it.
class MockMachine {
 public:
  explicit MockMachine(int devices, int version = nccl_version(2, 30, 7));
  MockMachine(const MockMachine&) = delete;
  ~MockMachine();

  NcclApi nccl_api() const;  // the functions of its version
  static std::string uuid(int device) { return mock_gpu_uuid(static_cast<unsigned>(device)); }

  // --- for tests ---
  std::vector<MockFaults> faults;                                    // by device
  std::vector<std::vector<int>>& processes = mock_nvml().processes;  // that compute, by device
  int answers_in_progress = 2;                                       // before a call that does not block is done
  bool shares_gpus = false;           // NCCL_MULTI_RANK_GPU_ENABLE: NCCL takes a GPU for several ranks
  bool tells_peers = true;            // of a communicator that was aborted: a remote error
  std::function<void()> before_copy;  // called by streams
  std::set<const void*> capturing;    // streams whose work becomes part of a graph
  std::set<int> contexts;             // devices on which there is one
  std::vector<MockCall> calls_of(int device);
  std::size_t count(int device, const std::string& name);
  std::vector<std::string> misuses();       // what real libraries answer with a crash
  std::string leaks();                      // "": nothing lives
  void fail(int device, NcclResult error);  // of all communicators there

  // --- for the tables ---
  void log(int device, const char* name, const void* stream = nullptr, const void* object = nullptr);
  void misuse(const std::string& what) { misuses_.push_back(what); }  // locked
  bool misuses_free() const { return misuses_.empty(); }
  MockStream& stream(CudaStream handle);                        // locked; the default one is made
  void enqueue(CudaStream handle, std::function<void()> work);  // locked
  struct Allocation {
    std::size_t bytes;
    int device;
    bool host;
    std::uint64_t number;
    std::unique_ptr<std::byte[]> memory;
  };
  // The allocation that an address lies in; the key is its begin. end(): none. Locked.
  std::map<std::uintptr_t, Allocation>::iterator find(const void* address);
  // Whether `bytes` from there are memory of this GPU. Locked.
  bool holds(const void* address, std::size_t bytes, int device);
  void enter();  // locked; the machine waits for the end of this thread before its own
  NcclResult join(NcclComm* comm, int size, const NcclUniqueId& id, int rank, bool blocking);
  MockComm* comm(NcclComm handle, const char* what);  // locked; nullptr and a misuse when it is gone
  void run(const std::vector<MockLaunch>& group);     // on a stream's thread

  std::mutex mutex;
  std::condition_variable changed;
  bool ending = false;
  int device_count;
  int version;
  std::map<std::uintptr_t, Allocation> allocations;
  std::uint64_t allocated = 0;
  std::vector<std::unique_ptr<MockStream>> streams;
  std::vector<std::unique_ptr<MockEvent>> events;
  std::vector<std::unique_ptr<MockComm>> comms;
  std::map<int, std::shared_ptr<MockClique>> cliques;
  int next_clique = 1, next_factor = 5;
  int visitors = 0;  // threads that blocked in NCCL and have not ended

 private:
  void meet(const MockLaunch& launch, std::unique_lock<std::mutex>& lock);
  void work(MockStream& stream);

  std::map<int, MockStream*> default_streams_;
  std::vector<MockCall> calls_;
  std::vector<std::string> misuses_;
};

MockMachine& mock_machine();
int mock_device();  // of this thread
CudaApi mock_cuda_api();
NcclApi mock_nccl_api();

}  // namespace xoe::testing
